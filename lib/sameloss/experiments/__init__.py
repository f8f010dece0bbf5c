"""The runs of the book: language → corpus → pre-training → {saturation, flatness, downstream}."""

from sameloss.experiments.finetuning import Finetuning
from sameloss.experiments.flatness import (
    EnlargementMeasurement,
    EstimatorComparison,
    FlatnessMeasurement,
    IdentityMeasurement,
    ReparametrisationMeasurement,
)
from sameloss.experiments.languages import Calibration, LanguageMeasurement, LanguageStatistics
from sameloss.experiments.measurements import (
    HeldOutConditionals,
    HessianGapMeasurement,
    SaturationMeasurement,
    TraceMeasurement,
)
from sameloss.experiments.pretraining import Checkpoints, Pretraining
from sameloss.experiments.probing import BaselineProbing, Probing
from sameloss.experiments.sampling import CorpusSampling, Downstream, LabelledSampling

__all__ = [
    "BaselineProbing",
    "Calibration",
    "Checkpoints",
    "CorpusSampling",
    "Downstream",
    "EnlargementMeasurement",
    "EstimatorComparison",
    "Finetuning",
    "FlatnessMeasurement",
    "HeldOutConditionals",
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
