"""The page's sections in order: their figures and tables, and the question that each answers."""

from hpcai.core.messages import Message
from hpcai.report.prediction_sections import PREDICTION_SECTIONS
from hpcai.report.section_specs import SectionSpec, fill_sections

NO_EARLIER = Message(
    "sections.no_earlier",
    "No earlier result was given to compare this one with; hpcai compare and hpcai history do so.",
)
STUDY_SECTIONS = fill_sections(
    SectionSpec(
        "scores",
        "Scores",
        "Speed, quality and uncertainty: the suites' own scores, with the runs behind them.",
    ),
    SectionSpec(
        "machine",
        "This machine",
        "What TOP500, Green500, IO500, STREAM and the training suites ask of a machine: each number by its own rule, "
        "none mixed into an index.",
        level=3,
    ),
    SectionSpec(
        "ranking",
        "Ranking",
        "This machine compared with others and with published results; only comparable results share a list.",
        level=3,
    ),
    SectionSpec(
        "comparison",
        "What changed",
        "Comparison with an earlier result: every difference in settings, code, machine and software, and in every "
        "score.",
        level=3,
        absent=NO_EARLIER(),
    ),
    SectionSpec(
        "roofline",
        "Roofline",
        "How close each result is to the limits of the machine, and whether computation or communication limits it.",
    ),
    SectionSpec(
        "scaling",
        "Scaling",
        "Speed-up and efficiency with more ranks, and extrapolation by a law fitted to the measured scales.",
    ),
    SectionSpec(
        "time",
        "Time breakdown",
        "Where the wall time of a run goes.",
    ),
    SectionSpec(
        "communication",
        "Communication",
        "The gradient exchange between ranks: its duration, the share of waiting, and how close it is to the limit of "
        "the link.",
    ),
    SectionSpec(
        "io",
        "I/O",
        "Staging from shared storage to the nodes' scratch, and the cost of reading the training data.",
    ),
    SectionSpec(
        "kernels",
        "Kernels",
        "Compute time by kind of computation, and hardware counters.",
    ),
    SectionSpec(
        "rules",
        "Rules",
        "Compliance with the rules of each suite: every deviation, with the section of the rule.",
    ),
)
"""Sections on the study's measurements."""
NO_ROUND = "No published round was given (study key rounds), and no own run of MLPerf HPC was recorded."
NO_RESULT = "Nothing to show: see the section on MLPerf HPC rounds."
ROUND_SECTIONS = fill_sections(
    SectionSpec(
        "rounds",
        "MLPerf HPC rounds",
        "Published results and our own runs of MLPerf HPC, by the same definitions: times, staging, budget.",
        absent=NO_ROUND,
    ),
    SectionSpec(
        "round-scaling",
        "Scaling of MLPerf HPC results",
        "Throughput gained and epochs lost with more compute units, and why runs of one result differ.",
        level=3,
        absent=NO_RESULT,
    ),
    SectionSpec(
        "round-prediction",
        "Prediction of MLPerf HPC results",
        "Predicted time to solution at configurations that were not run, and the errors of such predictions.",
        level=3,
        absent=NO_RESULT,
    ),
    SectionSpec(
        "round-verdicts",
        "Verdicts on MLPerf HPC logs",
        "Logs that violate a rule of the compliance checker, with each rule and key once per submission.",
        level=3,
        absent=NO_RESULT,
    ),
    SectionSpec(
        "round-repairs",
        "Repairs of MLPerf HPC logs",
        "Irregularities in the files, and how each was resolved: no repair is silent.",
        level=3,
        absent=NO_RESULT,
    ),
)
"""Sections on published rounds and our own runs of MLPerf HPC."""
DEVICE_SECTIONS = fill_sections(
    SectionSpec(
        "gpu",
        "Training on one device",
        "How fast one device trains, how near that is to its matrix products and its memory, and what it draws.",
    ),
)
"""Measurements of `hpcai gpu`, on a separate page."""
ACCEPTANCE_SECTIONS = fill_sections(
    SectionSpec("acceptance", "Nodes, pairs and rings", "Which of them are slower than the others, or failed."),
)
"""Acceptance of a machine, on a separate page."""
SECTIONS = (*STUDY_SECTIONS, *PREDICTION_SECTIONS, *ROUND_SECTIONS)
"""Sections with only figures and tables; the page adds its summary, the runs, provenance and definitions."""
