"""The slow obvious way: every derivation tree of a tiny grammar, one by one."""

from itertools import product

import torch

from sameloss.languages import Sentences
from sameloss.languages.grammars.grammar import Grammar


def derivations(grammar, symbol, length):
    """Yield (words, probability) for every tree of `length` tokens below a symbol."""
    if length == 1:
        for word, probability in enumerate(grammar.emission[symbol].tolist(), start=1):
            if probability:
                yield (word,), probability
    for (parent, left, right), probability in zip(
        grammar.rules.tolist(), grammar.weights.tolist(), strict=True
    ):
        if parent == symbol:
            for part in range(1, length):
                below = derivations(grammar, left, part), derivations(grammar, right, length - part)
                for (first, p), (second, q) in product(*map(list, below)):
                    yield first + second, probability * p * q


def enumerated(grammar, longest):
    """Return Pr(sentence) for every sentence of at most `longest` tokens, given that it is that short."""
    total = {}
    for symbol, root in enumerate(grammar.roots.tolist()):
        for length in range(1, longest + 1) if root else ():
            for words, probability in derivations(grammar, symbol, length):
                total[words] = total.get(words, 0.0) + root * probability
    mass = sum(total.values())
    return {words: probability / mass for words, probability in total.items()}


def inside(grammar, symbol, words):
    """Return Pr(symbol derives exactly these words)."""
    return sum(p for found, p in derivations(grammar, symbol, len(words)) if found == words)


def as_sentences(strings, width):
    tokens = torch.tensor([list(words) + [0] * (width - len(words)) for words in strings])
    return Sentences(tokens, torch.tensor([len(words) for words in strings]))


def completed(probabilities, masked, position, vocabulary):
    """Return the distribution of one token, given the others, 0 standing for any word."""
    totals = torch.zeros(vocabulary, dtype=torch.float64)
    for words, probability in probabilities.items():
        if len(words) == len(masked) and all(
            given in (0, word) or place == position
            for place, (word, given) in enumerate(zip(words, masked, strict=True))
        ):
            totals[words[position] - 1] += probability
    return totals / totals.sum()


def tiny_grammar(numbers, symbols, words, rules, lexical):
    """Turn a list of random numbers into a grammar; symbol s may stand below itself.

    Every symbol emits at least one word, so all terminate.
    """
    draw = iter(numbers)
    table = [
        (s, int(next(draw) * symbols), int(next(draw) * symbols))
        for s in range(symbols)
        for _ in range(rules)
    ]
    weights = torch.tensor([0.1 + next(draw) for _ in table], dtype=torch.float64)
    emission = torch.zeros(symbols, words, dtype=torch.float64)
    for symbol in range(symbols):
        for _ in range(lexical):
            emission[symbol, int(next(draw) * words)] += 1.5 * (0.1 + next(draw))
    parents = torch.tensor([s for s, _, _ in table], dtype=torch.long)
    totals = emission.sum(1).index_add(0, parents, weights)
    roots = torch.tensor([0.1 + next(draw) for _ in range(symbols)], dtype=torch.float64)
    return Grammar(
        roots / roots.sum(),
        torch.tensor(table, dtype=torch.long).reshape(-1, 3),
        weights / totals[parents],
        emission / totals[:, None],
        tuple("ABC"[:symbols]),
        tuple("uvw"[:words]),
    )
