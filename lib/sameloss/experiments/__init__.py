"""The runs of the book: language → corpus → pre-training → {saturation, flatness, downstream}."""

from sameloss.experiments.languages import Calibration, LanguageMeasurement, LanguageStatistics
from sameloss.experiments.measurements import SaturationMeasurement, TraceMeasurement
from sameloss.experiments.pretraining import Checkpoints, CorpusSampling, Pretraining
from sameloss.experiments.probing import (
    BaselineProbing,
    Downstream,
    LabelledSampling,
    Probing,
)

__all__ = [
    "BaselineProbing",
    "Calibration",
    "Checkpoints",
    "CorpusSampling",
    "Downstream",
    "LabelledSampling",
    "LanguageMeasurement",
    "LanguageStatistics",
    "Pretraining",
    "Probing",
    "SaturationMeasurement",
    "TraceMeasurement",
]
