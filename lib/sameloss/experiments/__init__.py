"""The runs of the book: language → corpus → pre-training → {saturation, flatness, downstream}."""

from sameloss.experiments.flatness import (
    EnlargementMeasurement,
    EstimatorComparison,
    IdentityMeasurement,
    ReparametrisationMeasurement,
)
from sameloss.experiments.languages import Calibration, LanguageMeasurement, LanguageStatistics
from sameloss.experiments.measurements import (
    HessianGapMeasurement,
    SaturationMeasurement,
    TraceMeasurement,
)
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
    "EnlargementMeasurement",
    "EstimatorComparison",
    "HessianGapMeasurement",
    "IdentityMeasurement",
    "LabelledSampling",
    "LanguageMeasurement",
    "LanguageStatistics",
    "Pretraining",
    "Probing",
    "ReparametrisationMeasurement",
    "SaturationMeasurement",
    "TraceMeasurement",
]
