"""The sections of the page in their order: which figures and tables stand where, and what each section answers."""

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
        "How fast, how good, and how sure: the suites' own scores, with the runs behind them.",
    ),
    SectionSpec(
        "ranking",
        "Ranking",
        "This machine beside others and beside published results, like with like only.",
        level=3,
    ),
    SectionSpec(
        "comparison",
        "What changed",
        "Against an earlier result: every difference in settings, code, machine and software, and in every score.",
        level=3,
        absent=NO_EARLIER(),
    ),
    SectionSpec(
        "roofline",
        "Roofline",
        "How near each result is to what the machine allows, and whether computing or communication holds it back.",
    ),
    SectionSpec(
        "scaling",
        "Scaling",
        "What more ranks bring, what they cost, and what a law fitted to the scales says about larger ones.",
    ),
    SectionSpec(
        "time",
        "Time breakdown",
        "Where the wall time of a run goes.",
    ),
    SectionSpec(
        "communication",
        "Communication",
        "How gradients travel between ranks: how long, how much of it waiting, how near to what the link can do.",
    ),
    SectionSpec(
        "io",
        "I/O",
        "Staging from shared storage to the nodes' scratch, and what reading the training data takes.",
    ),
    SectionSpec(
        "kernels",
        "Kernels",
        "Which computations the time goes to, and what hardware counters say of them.",
    ),
    SectionSpec(
        "rules",
        "Rules",
        "What the rules of each suite say of these runs: every deviation, with the section of the rule.",
    ),
)
"""What the study measured."""
NO_ROUND = "No published round was given (study key rounds), and no own run of MLPerf HPC was recorded."
NO_RESULT = "There is nothing to show: see the section on MLPerf HPC rounds."
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
        "What more compute units bring in throughput and cost in epochs, and why runs of one result differ.",
        level=3,
        absent=NO_RESULT,
    ),
    SectionSpec(
        "round-prediction",
        "Prediction of MLPerf HPC results",
        "The time to solution at configurations that nobody ran, and how far such predictions are off.",
        level=3,
        absent=NO_RESULT,
    ),
    SectionSpec(
        "round-verdicts",
        "Verdicts on MLPerf HPC logs",
        "Which logs break which rule of the compliance checker, each rule and key once per submission.",
        level=3,
        absent=NO_RESULT,
    ),
    SectionSpec(
        "round-repairs",
        "Repairs of MLPerf HPC logs",
        "What was irregular in the files, and what was made of it: nothing is repaired without a word.",
        level=3,
        absent=NO_RESULT,
    ),
)
"""What published rounds and our own runs of MLPerf HPC show."""
DEVICE_SECTIONS = fill_sections(
    SectionSpec(
        "gpu",
        "Training on one device",
        "How fast one device trains, how near that is to its matrix products and its memory, and what it draws.",
    ),
)
"""What `hpcai gpu` measured; a page of its own."""
SECTIONS = (*STUDY_SECTIONS, *PREDICTION_SECTIONS, *ROUND_SECTIONS)
"""Sections of figures and tables alone; the page adds its summary, the runs, provenance and definitions."""
