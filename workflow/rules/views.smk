# Reads:  results/tables of all views
# Writes: results/figures and results/tables pages of the categories Communication, I/O, Kernels, Characterisation


VIEW_PAGES = [
    *expand(
        "results/figures/{topic}.svg",
        topic=["lanes", "phases", "messages", "links", "io", "kernels", "ceilings"],
    ),
    *expand(
        "results/tables/{view}.html",
        view=["communication", "io", "work", "kernels", "ceilings"],
    ),
    *expand(
        "results/tables/{view}.html",
        view=["characterisation", "power", "advice", "inconsistencies", "captures"],
    ),
]


use rule plot_time_to_train as plot_lanes with:
    input:
        lanes="results/tables/lanes.parquet",
        captures="results/tables/captures.parquet",
    output:
        figure=report(
            "results/figures/lanes.svg",
            caption="../../reports/captions/lanes.rst",
            category="Communication",
            labels={"figure": "One training step, lane by lane"},
        ),
    log:
        "logs/plot_lanes.log",
    params:
        figure="lanes",
        library=PLOT_LIBRARY,


use rule plot_time_to_train as plot_phases with:
    input:
        phases="results/tables/phases.parquet",
        communication="results/tables/communication.parquet",
        captures="results/tables/captures.parquet",
    output:
        figure=report(
            "results/figures/phases.svg",
            caption="../../reports/captions/phases.rst",
            category="Communication",
            labels={"figure": "Phases of the exchange"},
        ),
    log:
        "logs/plot_phases.log",
    params:
        figure="phases",
        library=PLOT_LIBRARY,


use rule plot_time_to_train as plot_messages with:
    input:
        messages="results/tables/messages.parquet",
        links="results/tables/links.parquet",
        link_fits="results/tables/link_fits.parquet",
        captures="results/tables/captures.parquet",
    output:
        figure=report(
            "results/figures/messages.svg",
            caption="../../reports/captions/messages.rst",
            category="Communication",
            labels={"figure": "Bandwidth against message size"},
        ),
    log:
        "logs/plot_messages.log",
    params:
        figure="messages",
        library=PLOT_LIBRARY,


use rule plot_time_to_train as plot_links with:
    input:
        links="results/tables/links.parquet",
        link_fits="results/tables/link_fits.parquet",
        captures="results/tables/captures.parquet",
    output:
        figure=report(
            "results/figures/links.svg",
            caption="../../reports/captions/links.rst",
            category="Communication",
            labels={"figure": "Measured allreduce"},
        ),
    log:
        "logs/plot_links.log",
    params:
        figure="links",
        library=PLOT_LIBRARY,


use rule plot_time_to_train as plot_io with:
    input:
        io="results/tables/io.parquet",
        ceilings="results/tables/ceilings.parquet",
        captures="results/tables/captures.parquet",
    output:
        figure=report(
            "results/figures/io.svg",
            caption="../../reports/captions/io.rst",
            category="I/O",
            labels={"figure": "Reading, seen by Darshan"},
        ),
    log:
        "logs/plot_io.log",
    params:
        figure="io",
        library=PLOT_LIBRARY,


use rule plot_time_to_train as plot_kernels with:
    input:
        kernels="results/tables/kernels.parquet",
        captures="results/tables/captures.parquet",
    output:
        figure=report(
            "results/figures/kernels.svg",
            caption="../../reports/captions/kernels.rst",
            category="Kernels",
            labels={"figure": "Kernel time by category"},
        ),
    log:
        "logs/plot_kernels.log",
    params:
        figure="kernels",
        library=PLOT_LIBRARY,


use rule plot_time_to_train as plot_ceilings with:
    input:
        ceilings="results/tables/ceilings.parquet",
        captures="results/tables/captures.parquet",
    output:
        figure=report(
            "results/figures/ceilings.svg",
            caption="../../reports/captions/ceilings.rst",
            category="Kernels",
            labels={"figure": "Measured ceilings"},
        ),
    log:
        "logs/plot_ceilings.log",
    params:
        figure="ceilings",
        library=PLOT_LIBRARY,


use rule show_runs as show_communication with:
    input:
        table="results/tables/communication.parquet",
    output:
        page=report(
            "results/tables/communication.html",
            caption="../../reports/captions/communication.rst",
            category="Communication",
            labels={"figure": "Table of communication"},
        ),
    log:
        "logs/show_communication.log",
    params:
        table="communication",
        title="Communication of the profiled runs",
        note="Measured over the profiled steps of rank 0's timeline. Empty: not measured.",
        library=PLOT_LIBRARY,


use rule show_runs as show_io with:
    input:
        table="results/tables/io.parquet",
    output:
        page=report(
            "results/tables/io.html",
            caption="../../reports/captions/io.rst",
            category="I/O",
            labels={"figure": "Table of I/O"},
        ),
    log:
        "logs/show_io.log",
    params:
        table="io",
        title="What Darshan saw",
        note="Measured over the profiled runs, one row for each folder of data.",
        library=PLOT_LIBRARY,


use rule show_runs as show_work with:
    input:
        table="results/tables/work.parquet",
    output:
        page=report(
            "results/tables/work.html",
            caption="../../reports/captions/work.rst",
            category="Kernels",
            labels={"figure": "Table of floating-point work"},
        ),
    log:
        "logs/show_work.log",
    params:
        table="work",
        title="Floating-point work and rates",
        note="Counted by formula, by compiled step, by hardware counters; rates are those of the timed runs.",
        library=PLOT_LIBRARY,


use rule show_runs as show_kernels with:
    input:
        table="results/tables/kernels.parquet",
    output:
        page=report(
            "results/tables/kernels.html",
            caption="../../reports/captions/kernels.rst",
            category="Kernels",
            labels={"figure": "Table of kernels"},
        ),
    log:
        "logs/show_kernels.log",
    params:
        table="kernels",
        title="Kernel time by category",
        note="Measured over the profiled steps of rank 0.",
        library=PLOT_LIBRARY,


use rule show_runs as show_ceilings with:
    input:
        table="results/tables/ceilings.parquet",
    output:
        page=report(
            "results/tables/ceilings.html",
            caption="../../reports/captions/ceilings.rst",
            category="Kernels",
            labels={"figure": "Table of ceilings"},
        ),
    log:
        "logs/show_ceilings.log",
    params:
        table="ceilings",
        title="Ceilings of this machine",
        note="Measured: the best of several ways, sizes and repeats.",
        library=PLOT_LIBRARY,


use rule show_runs as show_characterisation with:
    input:
        table="results/tables/characterisation.parquet",
    output:
        page=report(
            "results/tables/characterisation.html",
            caption="../../reports/captions/characterisation.rst",
            category="Characterisation",
            labels={"figure": "Memory, network and I/O bandwidth"},
        ),
    log:
        "logs/show_characterisation.log",
    params:
        table="characterisation",
        title="Memory, network and I/O bandwidth of each benchmark",
        note="As Table VII of the MLPerf HPC paper; each number with its method, or why it was not measured.",
        library=PLOT_LIBRARY,


use rule show_runs as show_power with:
    input:
        table="results/tables/power.parquet",
    output:
        page=report(
            "results/tables/power.html",
            caption="../../reports/captions/power.rst",
            category="Characterisation",
            labels={"figure": "Table of power"},
        ),
    log:
        "logs/show_power.log",
    params:
        table="power",
        title="Power of the profiled runs",
        note="Measured over the training steps by the meters that the node has.",
        library=PLOT_LIBRARY,


use rule show_runs as show_advice with:
    input:
        table="results/tables/advice.parquet",
    output:
        page=report(
            "results/tables/advice.html",
            caption="../../reports/captions/advice.rst",
            category="Characterisation",
            labels={"figure": "Advice"},
        ),
    log:
        "logs/show_advice.log",
    params:
        table="advice",
        title="What the numbers advise",
        note="Each sentence with the numbers that it stands on.",
        library=PLOT_LIBRARY,


use rule show_runs as show_inconsistencies with:
    input:
        table="results/tables/inconsistencies.parquet",
    output:
        page=report(
            "results/tables/inconsistencies.html",
            caption="../../reports/captions/inconsistencies.rst",
            category="Characterisation",
            labels={"figure": "Inconsistencies"},
        ),
    log:
        "logs/show_inconsistencies.log",
    params:
        table="inconsistencies",
        title="Rates above their roof",
        note="Either the sample or the ceiling is wrong; both are shown.",
        library=PLOT_LIBRARY,


use rule show_runs as show_captures with:
    input:
        table="results/tables/captures.parquet",
    output:
        page=report(
            "results/tables/captures.html",
            caption="../../reports/captions/captures.rst",
            category="Characterisation",
            labels={"figure": "Table of captures"},
        ),
    log:
        "logs/show_captures.log",
    params:
        table="captures",
        title="What was captured, and why not",
        note="One row for each profile of each point.",
        library=PLOT_LIBRARY,
