"""Published numbers, and the tolerance within which each would count as reproduced.

O is the OpenReview text, I the ICML text. A value of None means that the paper states a direction
only. Every effect is oriented so that the paper's claim is a positive number.
"""

from sameloss.studies.verdict import Published

ENTROPY = {"PCFG": 3.196, "HMM": 3.758, "OPT": 1.865}
"""Masked entropy of the paper's languages, nats a token: the best possible loss (Section 2.3)."""

MEAN_LENGTH = {"PCFG": 17.0, "HMM": 16.0, "OPT": 16.0}
"""Mean tokens of a sentence, from the numbers of tokens and sentences (App. A.1).

For the HMM the paper prints 1.6e7 tokens in 1e7 sentences of 16 tokens: a slip for 1.6e8.
"""

POINTS, NATS = "accuracy points", "nats"

LITTLE_ACCURACY, LITTLE_KL = 2.0, 0.02
"""What "does not change much" may be (App. E): accuracy points, and nats a masked token."""

PUBLISHED: dict[str, Published] = {
    "entropy": Published("§2.3", "PCFG: with size, the loss reaches the entropy", unit=NATS),
    "entropy-hmm": Published("§2.3", "HMM: the same", unit=NATS),
    "entropy-opt": Published("§2.3", "OPT text: the same", unit=NATS),
    "fig1": Published(
        "Fig. 1a", "after the loss has converged, more steps raise accuracy (task C)", unit=POINTS
    ),
    "fig1-matched": Published("Fig. 1a", "the same at equal KL, for each doubling of the steps", unit=POINTS),
    "fig2": Published("Fig. 2a", "at equal loss, larger models are more accurate (task B)", 6.9, POINTS),
    "fig2-hmm": Published("Fig. 2b", "the same on the HMM (task-10)", 4.5, POINTS),
    "fig2-opt": Published("Fig. 2c", "the same on OPT text (QNLI)", 2.0, POINTS),
    "fig9": Published("Fig. 9", "the same on PCFG task A", unit=POINTS),
    "fig9-hmm": Published("Fig. 9", "the same on the HMM, task-6", unit=POINTS),
    "fig9-opt": Published("Fig. 9", "the same on OPT text, SST-2", unit=POINTS),
    "logkl": Published(
        "I, Fig. 10", "against log KL: at exactly equal KL, larger models are more accurate", unit=POINTS
    ),
    "logkl-hmm": Published("I, Fig. 10", "the same on the HMM", unit=POINTS),
    "tab1-lookup-A": Published(
        "Tab. 1", "a lookup table probes worse than trained models (task A)", 18.7, POINTS
    ),
    "tab1-lookup-B": Published(
        "Tab. 1", "a lookup table probes worse than trained models (task B)", 9.5, POINTS
    ),
    "tab1-adversarial-A": Published("Tab. 1", "adversarial pre-training probes worse (task A)", 6.8, POINTS),
    "tab1-adversarial-B": Published("Tab. 1", "adversarial pre-training probes worse (task B)", 6.9, POINTS),
    "tab1-adversarial-A-matched": Published("Tab. 1", "the same at exactly equal KL (A)", 6.8, POINTS),
    "tab1-adversarial-B-matched": Published("Tab. 1", "the same at exactly equal KL (B)", 6.9, POINTS),
    "fig3-trace": Published(
        "Fig. 3", "SGD: after convergence, more steps lower the trace", unit="relative excess"
    ),
    "fig3-trace-adamw": Published("Fig. 3", "the same with AdamW", unit="relative excess"),
    "fig3-trace-hmm": Published("Fig. 3", "the same with SGD on the HMM", unit="relative excess"),
    "fig3-accuracy": Published("Fig. 3", "SGD: accuracy rises as the trace falls (task C)", 1.6, POINTS),
    "fig3-hmm": Published("Fig. 3", "the same on the HMM (task-10)", 4.0, POINTS),
    "tab2-trace": Published(
        "Tab. 2 (I)", "adversarial pre-training has a larger trace", 19.34 / 8.01 - 1, "relative excess"
    ),
    "tab2-trace-matched": Published(
        "Tab. 2 (I)", "the same at exactly equal KL", 19.34 / 8.01 - 1, "relative excess"
    ),
    "tab2-accuracy": Published("Tab. 2 (I)", "and is less accurate", 5.5, POINTS),
    "fig5-trace": Published(
        "Fig. 5", "larger models have a smaller trace", 2.68 / 1.54 - 1, "relative excess"
    ),
    "fig5-trace-matched": Published(
        "Fig. 5", "the same at exactly equal KL", 2.68 / 1.54 - 1, "relative excess"
    ),
    "fig5-enlarged": Published(
        "Fig. 5 (I)", "enlarged to one architecture, the same", 19.8 / 12.6 - 1, "relative excess"
    ),
    "fig5-r2": Published("Fig. 5", "across sizes, accuracy falls as the trace rises: r²", 0.92, "r²"),
    "fig5-hmm": Published("Fig. 5", "the same on the HMM: r²", 0.94, "r²"),
    "fig5-opt": Published("Fig. 5", "the same on OPT text: r²", 0.87, "r²"),
    "fig10-A": Published("Fig. 10", "SGD: accuracy falls as the trace rises, task A: r²", unit="r²"),
    "fig10-B": Published("Fig. 10", "the same, task B", unit="r²"),
    "fig10-hmm": Published("Fig. 10", "the same on the HMM, task-6", unit="r²"),
    "noise-trace": Published(
        "§3", "from one saturated point, SGD's label noise lowers the trace", unit="relative excess"
    ),
    "noise-accuracy": Published("§3, §4", "and thereby raises accuracy (task C)", unit=POINTS),
    "sam-trace": Published("App. D", "SAM finds flatter models", unit="relative excess"),
    "sam-accuracy": Published("App. D", "and more accurate ones (task B)", unit=POINTS),
    "mask15": Published(
        "App. E", f"15 % masking changes accuracy by less than {LITTLE_ACCURACY:g} points", unit=POINTS
    ),
    "mask15-kl": Published("App. E", f"and leaves the KL below {LITTLE_KL:g} nats", unit=NATS),
    "mask15-size": Published("Fig. 11", "with 15 % masking, larger models are more accurate", unit=POINTS),
    "mask15-r2": Published("Fig. 11", "with 15 % masking, accuracy falls as the trace rises: r²", unit="r²"),
}
