"""Entropy, KL and loss against full enumeration."""

import math
from itertools import product

import pytest
import torch

from sameloss.errors import ModelError
from sameloss.languages import HMMSpec, PCFGSpec, Sentences, mask_one
from sameloss.languages.entropy import enumerate_sentences
from sameloss.measures.saturation import bag_of_words_kl, divergences


class Oracle(torch.nn.Module):
    """A model that outputs the true conditionals, shifted by `error` nats on word 1."""

    def __init__(self, language, error=0.0):
        super().__init__()
        self.language, self.error = language, torch.nn.Parameter(torch.tensor(error).double())

    def forward(self, masked, positions, lengths=None):
        lengths = torch.full((len(masked),), masked.shape[1])
        conditionals = self.language.conditionals(Sentences(masked, lengths))
        logits = conditionals[torch.arange(len(masked)), positions].log()
        return logits + self.error * torch.tensor([1.0, 0.0, 0.0])


def brute_force(language, model):
    """Sum entropy and KL over all sentences and positions, one at a time."""
    entropy = kl = 0.0
    for words in product((1, 2, 3), repeat=4):
        tokens, lengths = torch.tensor([words]), torch.tensor([4])
        weight = language.log_prob(Sentences(tokens, lengths)).exp().item() / 4
        truth = language.conditionals(Sentences(tokens, lengths))[0]
        for t in range(4):
            positions = torch.tensor([t])
            predicted = model(mask_one(tokens, positions), positions)[0].double().log_softmax(-1)
            entropy -= weight * sum(p * math.log(p) for p in truth[t].tolist())
            kl += weight * sum((truth[t] * (truth[t].log() - predicted)).tolist())
    return entropy, kl


def population_kl(language, model):
    """Weigh the divergences of all sentences by their probabilities."""
    return sum(
        float(language.log_prob(part).exp() @ divergences(model, part, language.conditionals(part)))
        for part in enumerate_sentences(language)
    )


def test_divergences_match_brute_force(tiny_language, tiny_model):
    _, kl = brute_force(tiny_language, tiny_model)
    assert population_kl(tiny_language, tiny_model) == pytest.approx(kl, rel=1e-9)
    assert kl > 0.05


def test_a_model_of_another_vocabulary_is_refused(tiny_language, tiny_model):
    sentences = Sentences(torch.tensor([[1, 2, 3, 1]]), torch.tensor([4]))
    conditionals = torch.cat([tiny_language.conditionals(sentences), torch.zeros(1, 4, 1)], -1)
    with pytest.raises(ModelError, match=r"^The model predicts 3 words, and the language has 4\.$"):
        divergences(tiny_model, sentences, conditionals)


def test_the_truth_has_no_divergence(tiny_language):
    assert abs(population_kl(tiny_language, Oracle(tiny_language))) < 1e-12
    assert population_kl(tiny_language, Oracle(tiny_language, 0.3)) > 1e-3


def test_sampled_divergences_agree_with_the_population(tiny_language, tiny_model):
    sentences = tiny_language.sample(4000, torch.Generator().manual_seed(0))
    found = divergences(tiny_model, sentences, tiny_language.conditionals(sentences))
    error = float(found.std()) / 4000**0.5
    assert abs(float(found.mean()) - population_kl(tiny_language, tiny_model)) < 4 * error


def test_loss_is_entropy_and_divergence(tiny_language, tiny_model):
    """Equation (loss): the mean of -log f[x_t] over the language is H + KL."""
    total = 0.0
    for sentences in enumerate_sentences(tiny_language):
        weight = tiny_language.log_prob(sentences).exp() / 4
        for t in range(4):
            positions = torch.full((len(weight),), t)
            logits = tiny_model(mask_one(sentences.tokens, positions), positions).detach()
            total += float(
                weight
                @ torch.nn.functional.cross_entropy(logits, sentences.tokens[:, t] - 1, reduction="none")
            )
    assert sum(brute_force(tiny_language, tiny_model)) == pytest.approx(total, rel=1e-9)


def test_the_bag_of_words_is_exact_where_words_are_independent():
    """Without structure it is the marginal, whose KL from the truth is zero; with structure it is not."""
    independent = HMMSpec(1, 4, 3, 1, 1.0, 1.0, 0.1).build()
    structured = PCFGSpec(2, 4, 4, 4, 4, 8, 2, 1.0, 1.0, smoothing=0.05).build()
    found = []
    for language in (independent, structured):
        drawn = [language.sample(800, torch.Generator().manual_seed(seed)) for seed in (0, 1)]
        fitted_to, others = ((sentences, language.conditionals(sentences)) for sentences in drawn)
        found.append(bag_of_words_kl(fitted_to, *others))
    assert found[0] == pytest.approx(0.0, abs=1e-6)
    assert found[1] > 0.05
