"""What if: a measured study at other scales, over other links, in other precisions and with other compression."""

from hpcai.predict.what_if.measured import StudyTables
from hpcai.predict.what_if.published_epochs import PublishedEpochs, fit_published_epochs
from hpcai.predict.what_if.study import StudyModels, predict_study

__all__ = ["PublishedEpochs", "StudyModels", "StudyTables", "fit_published_epochs", "predict_study"]
