"""Grammars as text: NLTK's notation, and plain lines `LHS RHS... probability`.

Both need Chomsky normal form, except that the start symbol may have unary rules: they become the distribution
of the symbol from which a derivation starts. Duplicate rules are summed.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from math import isclose
from typing import NamedTuple
from unicodedata import normalize

import networkx as nx
import numpy as np
import pandas as pd
import torch

from sameloss.errors import LanguageError
from sameloss.languages.grammars.grammar import Grammar
from sameloss.languages.grammars.pcfg import PCFG
from sameloss.languages.language import LanguageSpec

WRITTEN_TOLERANCE = 0.01
"""Largest deviation of written probabilities from a sum of one (NLTK's own); they are then normalised."""

AMBIGUOUS = "is a symbol and a word, which plain lines cannot tell apart"


class Rule(NamedTuple):
    """A rule as it is written."""

    parent: str
    children: tuple[str, ...]
    lexical: bool  # whether the children are one word
    probability: float
    line: int  # from 1

    @property
    def unary(self) -> bool:
        """Whether the only child is a symbol."""
        return len(self.children) == 1 and not self.lexical

    def __str__(self) -> str:
        return f"{self.parent} -> {' '.join(self.children)} (line {self.line})"


@dataclass(frozen=True)
class GrammarText(LanguageSpec):
    """A grammar given by its text, which is part of a run's key.

    `length_limit` conditions on sentences of at most this many tokens; a recursive grammar needs one.
    """

    text: str
    length_limit: int | None = None

    @cached_property
    def _language(self) -> PCFG:
        return PCFG(read_grammar(self.text), self.length_limit)

    @property
    def words(self) -> int:
        """Vocabulary size c, without [MASK]."""
        return self._language.words

    @property
    def max_length(self) -> int:
        """Tokens of the longest sentence."""
        return self._language.max_length

    def build(self) -> PCFG:
        return self._language

    def drawn(self, seed: int) -> "GrammarText":
        return self


def read_grammar(text: str) -> Grammar:
    r"""Parse a grammar in either notation; its start is the first rule's symbol, or S after `% start S`.

    Raises:
        LanguageError: if a line cannot be parsed, a rule is not in Chomsky normal form, unary rules form a
            cycle, probabilities do not sum to one, or the start cannot reach a symbol.

    >>> grammar = read_grammar("S -> A A [1.0]\nA -> 'yes' [0.5] | 'no' [0.5]")
    >>> grammar.symbols, grammar.vocabulary
    (('S', 'A'), ('no', 'yes'))
    >>> read_grammar("S A A 1\nA yes 0.25\nA yes 0.25\nA no 0.5").emission[1].tolist()
    [0.5, 0.5]

    """
    start, written = _parse(text)
    _check_sums(written)
    rules = [rule for rule in written if rule.probability]
    _check_form(start, rules)
    _check_reach(start, rules)
    return _grammar(start, rules)


def rescaled_in_words(text: str) -> str:
    r"""Describe the start of a grammar, and which symbols' probabilities were normalised.

    >>> print(rescaled_in_words("S A A 1\nA x 0.333\nA y 0.333\nA z 0.333"))
    The start is S; divided by what they sum to as written: A (0.999).

    """
    start, rules = _parse(text)
    totals = pd.DataFrame(rules).groupby("parent", sort=False).probability.sum()
    off = [f"{symbol} ({total:.6g})" for symbol, total in totals.items() if not isclose(total, 1)]
    divided = f"divided by what they sum to as written: {', '.join(off)}"
    return f"The start is {start}; {divided if off else 'all probabilities sum to one as they are written'}."


QUOTED = r"'[^']*'|\"[^\"]*\""
EXPONENT = r"\[(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+\]"
NUMBER = r"\s[-+]?\.?\d[-+.\deE]*\s*$"
"""A probability at the end of a plain line."""

COMMENT = (
    r"(\]|\s[-+.\deE]+|^\s*%\s*start\s+\S+)\s+#.*$"  # after a probability or the start; words may have a #
)


def _parse(text: str) -> tuple[str, list[Rule]]:
    """Parse the start symbol and the rules of either notation; comments keep their lines."""
    text = normalize("NFC", text.removeprefix("\ufeff"))  # a byte-order mark; é in one sign or in two
    lines = [re.sub(r"^\s*#.*", "", re.sub(COMMENT, r"\1", line)) for line in text.splitlines()]
    arrows = any(
        "->" in line and not re.search(NUMBER, line) for line in lines
    )  # may be a word of plain lines
    parse = _parse_nltk if arrows else _parse_lines
    start, rules = parse(lines)
    if not rules:
        raise LanguageError("The grammar has no rules.")
    start = start or rules[0].parent
    if start not in {rule.parent for rule in rules}:
        raise LanguageError(f"The start symbol {start} has no rules.")
    return start, rules


def _parse_nltk(lines: Sequence[str]) -> tuple[str | None, list[Rule]]:
    """Parse line by line with NLTK, so that the line of each rule is known."""
    from nltk.grammar import is_terminal, read_grammar, standard_nonterm_parser  # takes seconds

    start, rules = None, []
    for number, line in _joined(lines):
        line = re.sub(f"{QUOTED}|{EXPONENT}", _without_exponent, line)
        directive = line.lstrip().startswith("%")
        rule = "\n_ -> '_' [1]" if directive else ""  # NLTK accepts no directive without rules
        try:
            first, productions = read_grammar(line + rule, standard_nonterm_parser, probabilistic=True)
        except ValueError as error:
            reason = re.findall(r"[\w ]*", str(error).partition("\n")[2] or str(error))[0]
            raise LanguageError(  # without the line, which may be of any file
                f"Line {number} of the grammar cannot be read: {reason}. Rules are `A -> B C [p]` "
                "or `A -> 'word' [p]` with names of letters, digits and any of / ^ < > - inside; plain lines "
                "`A B C p` take other names, too."
            ) from error
        if directive:
            start = _only_start(start, str(first), number)
            continue
        if any("[" not in side for side in re.sub(QUOTED, "", line).split("|")):  # 0 to NLTK
            raise LanguageError(
                f"A right side of {first} has no probability (line {number}); write [p] behind each."
            )
        for p in productions:
            lexical = any(map(is_terminal, p.rhs()))
            rules.append(Rule(str(p.lhs()), tuple(map(str, p.rhs())), lexical, p.prob(), number))
    return start, rules


def _only_start(before: str | None, start: str, line: int) -> str:
    if before not in (None, start):
        raise LanguageError(f"Line {line} of the grammar names a second start; leave one of them out.")
    return start


def _without_exponent(match: re.Match[str]) -> str:
    """Write a probability such as [1e-3] in positional notation, for NLTK; leave quoted words as they are."""
    text = match[0]
    return f"[{np.format_float_positional(float(text[1:-1]))}]" if text.startswith("[") else text


def _joined(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield non-empty lines with their numbers; a final backslash joins a line to the next."""
    before = ""
    for number, line in enumerate(lines, start=1):
        if line.strip().endswith("\\"):
            before += line.strip()[:-1] + " "
        elif line.strip() or before:
            yield number, before + line
            before = ""


def _parse_lines(lines: Sequence[str]) -> tuple[str | None, list[Rule]]:
    """Parse plain lines; what is the parent of some line is a symbol elsewhere, and no word."""
    split = [(number, line.split()) for number, line in enumerate(lines, start=1) if line.strip()]
    parents = {parent for _, (parent, *_) in split}
    start, rules = None, []
    for number, (parent, *children) in split:
        try:
            probability = float(children.pop())
        except (IndexError, ValueError):
            if directive := re.fullmatch(r"\s*%\s*start\s+(\S+)\s*", lines[number - 1]):
                start = _only_start(start, directive[1], number)
                continue
            raise LanguageError(f"Line {number} of the grammar does not end in a probability.") from None
        if children[:1] == ["->"] and len(children) > 1 and "->" not in parents:
            raise LanguageError(f"Line {number} of the grammar has an arrow; write its probability as [p].")
        if children == [parent]:
            raise LanguageError(f"{parent!r} (line {number}) {AMBIGUOUS}; rename one of them.")
        lexical = len(children) == 1 and children[0] not in parents
        rules.append(Rule(parent, tuple(children), lexical, probability, number))
    return start, rules


def _check_sums(rules: Sequence[Rule]) -> None:
    for rule in rules:
        if not 0 <= rule.probability <= 1:
            raise LanguageError(f"The probability of rule {rule} is {rule.probability}; it lies in [0, 1].")
    for parent, group in pd.DataFrame(rules).groupby("parent", sort=False):
        total, lines = group.probability.sum(), ", ".join(map(str, group.line.unique()))
        if abs(total - 1) > WRITTEN_TOLERANCE:
            raise LanguageError(
                f"Probabilities of {parent} (line {lines}) sum to {total:.9g}; they must sum to 1, up to "
                f"{WRITTEN_TOLERANCE}, and are then divided by their sum."
            )


def _check_form(start: str, rules: Sequence[Rule]) -> None:
    """Require Chomsky normal form, except for unary rules of the start."""
    unary = nx.DiGraph((rule.parent, rule.children[0]) for rule in rules if rule.unary)
    for cycle in nx.simple_cycles(unary):
        raise LanguageError(f"Unary rules form a cycle: {' -> '.join([*cycle, cycle[0]])}.")
    parents = {rule.parent for rule in rules}
    for rule in rules:
        if len(rule.children) != (1 if rule.lexical or rule.unary else 2):
            raise LanguageError(f"Rule {rule} is not in Chomsky normal form: two symbols, or one word.")
        if rule.lexical and not rule.children[0].strip():
            raise LanguageError(f"Line {rule.line} has an empty word; empty productions are not allowed.")
        if unknown := set() if rule.lexical else set(rule.children) - parents:
            raise LanguageError(f"Symbol {min(unknown)} of rule {rule} has no rules of its own.")
        if rule.unary and rule.parent != start:
            raise LanguageError(f"Rule {rule} is unary; only the start symbol {start} may have such rules.")
        if start in rule.children and start in unary:
            raise LanguageError(f"The start symbol {start} has unary rules, so it may not stand in {rule}.")


def _check_reach(start: str, rules: Sequence[Rule]) -> None:
    """Require that every symbol, and so every word, occurs in some derivation."""
    graph = nx.DiGraph((rule.parent, child) for rule in rules if not rule.lexical for child in rule.children)
    graph.add_nodes_from(rule.parent for rule in rules)
    lost = [symbol for symbol in graph if symbol not in {start, *nx.descendants(graph, start)}]
    if lost:
        raise LanguageError(
            f"{', '.join(lost)} cannot be reached from the start {start}; write another one first, or with "
            "`% start`, or leave out what cannot be reached."
        )


def _grammar(start: str, rules: Sequence[Rule]) -> Grammar:
    """Build normalised tables; unary rules become the distribution of the first symbol."""
    parents = dict.fromkeys(rule.parent for rule in rules if not rule.unary)
    symbols = {symbol: number for number, symbol in enumerate(parents)}
    vocabulary = tuple(sorted(sorted({r.children[0] for r in rules if r.lexical}), key=_natural))
    words = {word: number for number, word in enumerate(vocabulary)}
    roots, emission = np.zeros(len(symbols)), np.zeros((len(symbols), len(words)))
    for rule in rules:
        if rule.unary or rule.parent == start:
            roots[symbols[rule.children[0] if rule.unary else start]] += rule.probability
        if rule.lexical:
            emission[symbols[rule.parent], words[rule.children[0]]] += rule.probability
    binary = [rule for rule in rules if len(rule.children) == 2]
    weights = np.array([rule.probability for rule in binary])
    table = np.array([[symbols[s] for s in (r.parent, *r.children)] for r in binary], int).reshape(-1, 3)
    totals = emission.sum(1) + np.bincount(table[:, 0], weights, len(symbols))
    return Grammar(
        roots=torch.from_numpy(roots / roots.sum()),
        rules=torch.from_numpy(table),
        weights=torch.from_numpy(weights / totals[table[:, 0]]),
        emission=torch.from_numpy(emission / totals[:, None]),
        symbols=tuple(symbols),
        vocabulary=vocabulary,
    )


def _natural(word: str) -> list:
    """Sort key that orders w2 before w10, with digits of any number."""
    parts: list = re.split(r"(\d+)", word)
    parts[1::2] = [(len(digits), digits) for digits in (part.lstrip("0") for part in parts[1::2])]
    return parts


def to_lines(grammar: Grammar) -> str:
    """Write plain lines `LHS RHS... probability` in full precision.

    Several start symbols become unary rules of a new one.

    Raises:
        LanguageError: for names that could not be parsed again.

    """
    names, words = grammar.symbols, grammar.vocabulary
    for name in (*names, *words):
        if not re.fullmatch(r"\S+" if name in words else r"[^\s#]\S*", name):
            raise LanguageError(f"The name {name!r} cannot be written in this notation.")
    if both := set(names) & set(words):
        raise LanguageError(f"{min(both)!r} {AMBIGUOUS}.")
    starts = grammar.roots.nonzero().flatten().tolist()
    lines: list[tuple[object, ...]] = []
    if len(starts) > 1:
        start = next(name for k in count() if (name := "ROOT" + k * "_") not in (*names, *words))
        lines = [(start, names[symbol], grammar.roots[symbol].item()) for symbol in starts]
    for symbol in sorted(range(len(names)), key=lambda symbol: [symbol] != starts):  # a single start first
        chosen = grammar.rules[:, 0] == symbol
        rules = zip(grammar.rules[chosen].tolist(), grammar.weights[chosen].tolist(), strict=True)
        lines += [(names[symbol], names[left], names[right], p) for (_, left, right), p in rules]
        emission = grammar.emission[symbol].tolist()
        lines += [(names[symbol], word, p) for word, p in zip(words, emission, strict=True) if p]
    return "".join(" ".join(map(str, line)) + "\n" for line in lines)
