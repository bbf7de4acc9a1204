"""The sections of the page in their order: which figures and tables stand where, and what each section answers."""

from hpcai.core.messages import Message
from hpcai.report import columns
from hpcai.report.prediction_sections import PREDICTION_SECTIONS
from hpcai.report.rounds import group_fastest, group_findings, group_origins, group_repairs
from hpcai.report.section_specs import SectionSpec, with_figures
from hpcai.report.tables import TableSpec

NO_EARLIER = Message(
    "sections.no_earlier",
    "No earlier result was given to compare this one with; hpcai compare and hpcai history do so.",
)
STUDY_SECTIONS = with_figures(
    SectionSpec(
        "scores",
        "Scores",
        "How fast, how good, and how sure: the suites' own scores, with the runs behind them.",
        (
            TableSpec("scores", "Scores of every scale", columns.SCORES),
            TableSpec("machine_scores", "Best result of the machine", columns.MACHINE_SCORES),
            TableSpec("scales", "Every scale: times and rates", columns.SCALES),
            TableSpec("run_scores", "Scores of every run", columns.RUN_SCORES),
            TableSpec("power", "Power and energy", columns.POWER, "power"),
        ),
    ),
    SectionSpec(
        "ranking",
        "Ranking",
        "This machine beside others and beside published results, like with like only.",
        (
            TableSpec("ranking", "Ranking", columns.RANKING),
            TableSpec(
                "published_points",
                "Published points under their own roofs",
                columns.ROOFLINE_POINTS,
                first=("status", "drawn"),
            ),
            TableSpec("declared_checks", "Whether published numbers come out again", columns.DECLARED_CHECKS),
            TableSpec("declared_breakdowns", "Published breakdowns of time", columns.DECLARED_BREAKDOWNS),
        ),
        level=3,
    ),
    SectionSpec(
        "comparison",
        "What changed",
        "Against an earlier result: every difference in settings, code, machine and software, and in every score.",
        (
            TableSpec("comparison", "Scores before and after", columns.COMPARISON),
            TableSpec("changes", "What is different", columns.CHANGES),
            TableSpec("history", "History", columns.HISTORY),
        ),
        level=3,
        absent=NO_EARLIER(),
    ),
    SectionSpec(
        "roofline",
        "Roofline",
        "How near each result is to what the machine allows, and whether computing or communication holds it back.",
        (
            TableSpec(
                "roofline_points", "Points under their roofs", columns.ROOFLINE_POINTS, first=("status", "drawn")
            ),
            TableSpec("roofline_ceilings", "Roofs and ceilings", columns.ROOFLINE_CEILINGS),
            TableSpec("roofline_moves", "What compression and precision move", columns.ROOFLINE_MOVES),
            TableSpec("work", "Floating-point work", columns.WORK),
            TableSpec("ceilings", "Measured ceilings", columns.CEILINGS),
            TableSpec("characterisation", "Bandwidths while training", columns.CHARACTERISATION),
            TableSpec("inconsistencies", "Numbers above their roof", columns.INCONSISTENCIES),
        ),
    ),
    SectionSpec(
        "scaling",
        "Scaling",
        "What more ranks bring, what they cost, and what a law fitted to the scales says about larger ones.",
        (
            TableSpec("scaling_details", "Every scale in detail", columns.SCALING_DETAILS),
            TableSpec("scaling", "Speed-up and efficiency", columns.SCALING),
            TableSpec("contention", "Contention apart from communication", columns.CONTENTION),
            TableSpec("scaling_fits", "Fitted laws", columns.SCALING_FITS),
            TableSpec("variant_effects", "Effect of variants", columns.VARIANT_EFFECTS),
        ),
    ),
    SectionSpec(
        "time",
        "Time breakdown",
        "Where the wall time of a run goes.",
        (
            TableSpec("efficiency", "What each run asked for and used", columns.EFFICIENCY),
            TableSpec("advice", "What the profiles advise", columns.ADVICE),
        ),
    ),
    SectionSpec(
        "communication",
        "Communication",
        "How gradients travel between ranks: how long, how much of it waiting, how near to what the link can do.",
        (
            TableSpec("communication", "Communication of each benchmark", columns.COMMUNICATION, "timeline"),
            TableSpec("phases", "Phases", columns.PHASES, "timeline"),
            TableSpec("link_fits", "Latency and bandwidth", columns.LINK_FITS),
            TableSpec("links", "Measured allreduces", columns.LINKS),
        ),
    ),
    SectionSpec(
        "io",
        "I/O",
        "Staging from shared storage to the nodes' scratch, and what reading the training data takes.",
        (TableSpec("io", "Reading while training", columns.IO, "io"),),
    ),
    SectionSpec(
        "kernels",
        "Kernels",
        "Which computations the time goes to, and what hardware counters say of them.",
        (
            TableSpec("kernels", "Kernels", columns.KERNELS, "kernels"),
            TableSpec("counters", "Hardware counters", columns.COUNTERS, "counters"),
        ),
    ),
    SectionSpec(
        "rules",
        "Rules",
        "What the rules of each suite say of these runs: every deviation, with the section of the rule.",
        (TableSpec("verdicts", "Findings", columns.VERDICTS),),
    ),
)
"""What the study measured."""
NO_ROUND = "No published round was given (study key rounds), and no own run of MLPerf HPC was recorded."
NO_RESULT = "There is nothing to show: see the section on MLPerf HPC rounds."
ROUND_SECTIONS = with_figures(
    SectionSpec(
        "rounds",
        "MLPerf HPC rounds",
        "Published results and our own runs of MLPerf HPC, by the same definitions: times, staging, budget.",
        (
            TableSpec("mlperf_runs", "Rounds and studies", columns.ROUND_ORIGINS, group=group_origins),
            TableSpec("mlperf_results", "Fastest results", columns.ROUND_FASTEST, part="fastest", group=group_fastest),
            TableSpec("mlperf_results", "Time to train (Table IV of the MLPerf HPC paper)", columns.ROUND_TIMES),
            TableSpec(
                "mlperf_results",
                "Staging and shares (Table V of the MLPerf HPC paper)",
                columns.ROUND_STAGING,
                part="staging",
            ),
            TableSpec(
                "mlperf_results",
                "Throughput and budget (Table VI of the MLPerf HPC paper)",
                columns.ROUND_BUDGETS,
                part="budgets",
            ),
            TableSpec("mlperf_weak", "Weak scaling", columns.ROUND_WEAK),
        ),
        absent=NO_ROUND,
    ),
    SectionSpec(
        "round-scaling",
        "Scaling of MLPerf HPC results",
        "What more compute units bring in throughput and cost in epochs, and why runs of one result differ.",
        (
            TableSpec("mlperf_results", "Epochs, throughput and compute time", columns.ROUND_SCALES, part="scales"),
            TableSpec("mlperf_efficiencies", "Scaling efficiencies", columns.ROUND_EFFICIENCIES),
            TableSpec("mlperf_principal", "Principal axes", columns.ROUND_PRINCIPAL),
        ),
        level=3,
        absent=NO_RESULT,
    ),
    SectionSpec(
        "round-prediction",
        "Prediction of MLPerf HPC results",
        "The time to solution at configurations that nobody ran, and how far such predictions are off.",
        (
            TableSpec("mlperf_prediction_errors", "How far predictions are off", columns.ROUND_PREDICTION_ERRORS),
            TableSpec("mlperf_leave_one_out", "Each result predicted from the others", columns.ROUND_LEAVE_ONE_OUT),
            TableSpec("mlperf_predictions", "Predicted configurations", columns.ROUND_PREDICTIONS),
        ),
        level=3,
        absent=NO_RESULT,
    ),
    SectionSpec(
        "round-verdicts",
        "Verdicts on MLPerf HPC logs",
        "Which logs break which rule of the compliance checker, each rule and key once per submission.",
        (TableSpec("mlperf_verdicts", "Failures of logs", columns.ROUND_VERDICTS, group=group_findings),),
        level=3,
        absent=NO_RESULT,
    ),
    SectionSpec(
        "round-repairs",
        "Repairs of MLPerf HPC logs",
        "What was irregular in the files, and what was made of it: nothing is repaired without a word.",
        (TableSpec("mlperf_repairs", "Repairs by kind", columns.ROUND_REPAIRS, group=group_repairs),),
        level=3,
        absent=NO_RESULT,
    ),
)
"""What published rounds and our own runs of MLPerf HPC show."""
SECTIONS = (*STUDY_SECTIONS, *PREDICTION_SECTIONS, *ROUND_SECTIONS)
"""Sections of figures and tables alone; the page adds its summary, the runs, provenance and definitions."""
