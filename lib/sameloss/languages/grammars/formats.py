"""Grammars as text: NLTK's notation, and plain lines `LHS RHS... probability`.

Both take Chomsky normal form; the start symbol alone may also have unary rules, which become the
distribution of the symbol a derivation starts from. Rules that are written twice are summed.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import networkx as nx
import numpy as np
import torch

from sameloss.errors import LanguageError
from sameloss.languages.grammars.grammar import Grammar
from sameloss.languages.grammars.pcfg import PCFG

WRITTEN_TOLERANCE = 0.01
"""How far from one written probabilities may sum, NLTK's own; they are then divided by their sum."""

NOT_TOLD_APART = "is a symbol and a word, which plain lines cannot tell apart"

ROUNDING = 1e-9
"""How far they may be off without a word."""


class Rule(NamedTuple):
    """One line of a grammar."""

    parent: str
    children: tuple[str, ...]
    lexical: bool  # whether the children are one word
    probability: float
    line: int = 0  # where it was written, from 1

    @property
    def unary(self) -> bool:
        """Whether the child is one symbol."""
        return len(self.children) == 1 and not self.lexical

    def __str__(self) -> str:
        return f"{self.parent} -> {' '.join(self.children)} (line {self.line})"


@dataclass(frozen=True)
class GrammarText:
    """A reader's own grammar as part of a run's key: the text itself decides.

    `length_limit` conditions on sentences of at most so many tokens; None where nothing recurs.
    """

    text: str
    length_limit: int | None = None

    @cached_property
    def _language(self) -> PCFG:
        return PCFG(read_grammar(self.text), self.length_limit)

    @property
    def words(self) -> int:
        """The number of words c of the vocabulary; [MASK] is not counted."""
        return self._language.words

    @property
    def max_length(self) -> int:
        """The number of tokens of the longest sentence."""
        return self._language.max_length

    def build(self) -> PCFG:
        """Make the language of the grammar."""
        return self._language


def read_grammar(text: str) -> Grammar:
    r"""Read a grammar in either notation; the start is the first rule's symbol, or that of `% start S`.

    Raises:
        LanguageError: where a line cannot be read, a rule is not in Chomsky normal form, unary
            rules form a cycle, probabilities do not sum to one, or the start cannot reach a symbol.

    >>> grammar = read_grammar("S -> A A [1.0]\nA -> 'yes' [0.5] | 'no' [0.5]")
    >>> grammar.symbols, grammar.vocabulary
    (('S', 'A'), ('no', 'yes'))
    >>> read_grammar("S A A 1\nA yes 0.25\nA yes 0.25\nA no 0.5").emission[1].tolist()
    [0.5, 0.5]

    """
    start, written = _read(text)
    _check_sums(written)
    rules = [rule for rule in written if rule.probability]  # of the others nothing comes
    _check_form(start, rules)
    _check_reach(start, rules)
    return _grammar(start, rules)


def rescaled_in_words(text: str) -> str:
    r"""Return one line on the start, and on what was divided by its sum because that was not one as written.

    >>> print(rescaled_in_words("S A A 1\nA x 0.333\nA y 0.333\nA z 0.333"))
    The start is S; divided by what they sum to as written: A (0.999).

    """
    start, rules = _read(text)
    off = [f"{s} ({t:.6g})" for s, t in _sums(rules).items() if abs(t - 1) > ROUNDING]
    divided = f"divided by what they sum to as written: {', '.join(off)}"
    return f"The start is {start}; {divided if off else 'all probabilities sum to one as they are written'}."


def _read(text: str) -> tuple[str, list[Rule]]:
    """Return the start symbol and the rules of either notation; comments become empty lines and ends."""
    lines = ["" if line.lstrip().startswith("#") else _without_comment(line) for line in text.splitlines()]
    return _read_nltk(lines) if any("->" in line for line in lines) else _read_lines(lines)


def _without_comment(line: str) -> str:
    """Return a line without what a # opens behind its last probability, or the start; words may hold one."""
    return re.sub(r"(\]|\s[-+.\deE]+|^\s*%\s*start\s+\S+)\s+#.*$", r"\1", line)


def _read_nltk(text: Sequence[str]) -> tuple[str, list[Rule]]:
    """Let NLTK read one line after the other, as it reads them all, so that each rule's line is known."""
    from nltk.grammar import is_terminal, read_grammar, standard_nonterm_parser  # takes seconds

    rules, start = [], None
    for number, line in _joined(text):
        line = re.sub(_QUOTED_OR_EXPONENT, _without_exponent, line)
        directive = line.lstrip().startswith("%")  # which NLTK does not take alone
        try:
            first, parsed = read_grammar(
                f"{line}\n_ -> '_' [1]" if directive else line, standard_nonterm_parser, True
            )
        except ValueError as error:
            said = str(error).partition("\n")[2] or str(error)
            raise LanguageError(
                f"Line {number} of the grammar cannot be read: {' '.join(said.split())}"
            ) from error
        if directive:
            start = str(first)
            continue
        if any("[" not in side for side in re.sub(_QUOTED, "", line).split("|")):  # which NLTK takes for 0
            raise LanguageError(
                f"A right side of {first} has no probability (line {number}); write [p] behind each."
            )
        rules += [
            Rule(str(r.lhs()), tuple(map(str, r.rhs())), any(map(is_terminal, r.rhs())), r.prob(), number)
            for r in parsed
        ]
    return _started(start, rules)


_QUOTED = r"'[^']*'|\"[^\"]*\""
_QUOTED_OR_EXPONENT = rf"{_QUOTED}|\[(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+\]"


def _without_exponent(found: re.Match[str]) -> str:
    """Write a probability such as [1e-3] as NLTK reads it; leave words as they are."""
    text = found[0]
    return f"[{np.format_float_positional(float(text[1:-1]))}]" if text.startswith("[") else text


def _started(start: str | None, rules: list[Rule]) -> tuple[str, list[Rule]]:
    """Return the start, which is the first line's symbol where nothing else is written, and the rules."""
    if not rules:
        raise LanguageError("The grammar has no rules.")
    start = start or rules[0].parent
    if start not in {rule.parent for rule in rules}:
        raise LanguageError(f"The start symbol {start} has no rules.")
    return start, rules


def _joined(text: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not empty with their numbers; one that ends in a backslash with the next."""
    before = ""
    for number, line in enumerate(text, start=1):
        if line.strip().endswith("\\"):
            before += line.strip()[:-1] + " "
        elif line.strip() or before:
            yield number, before + line
            before = ""


def _read_lines(text: Sequence[str]) -> tuple[str, list[Rule]]:
    lines = [(number, line.split()) for number, line in enumerate(text, start=1) if line.strip()]
    parents = {line[0] for _, line in lines}
    rules, start = [], None
    for number, (parent, *children) in lines:
        try:
            probability = float(children.pop())
        except (IndexError, ValueError):
            if directive := re.fullmatch(r"\s*%\s*start\s+(\S+)\s*", text[number - 1]):
                start = directive[1]
                continue
            raise LanguageError(f"Line {number}, of {parent}, does not end in a probability.") from None
        if children == [parent]:
            raise LanguageError(f"{parent!r} (line {number}) {NOT_TOLD_APART}; rename one of them.")
        lexical = len(children) == 1 and children[0] not in parents
        rules.append(Rule(parent, tuple(children), lexical, probability, number))
    return _started(start, rules)


def _check_form(start: str, rules: Sequence[Rule]) -> None:
    """Refuse what is not in Chomsky normal form, unary rules of the start excepted."""
    unary = nx.DiGraph((rule.parent, rule.children[0]) for rule in rules if rule.unary)
    for cycle in nx.simple_cycles(unary):
        raise LanguageError(f"Unary rules form a cycle: {' -> '.join([*cycle, cycle[0]])}.")
    parents = {rule.parent for rule in rules}
    for rule in rules:
        if len(rule.children) != (1 if rule.lexical or rule.unary else 2):
            raise LanguageError(f"Rule {rule} is not in Chomsky normal form: two symbols, or one word.")
        if rule.lexical and not rule.children[0].strip():
            raise LanguageError(
                f"An empty word on line {rule.line}; a grammar here has no empty productions."
            )
        if unknown := set() if rule.lexical else set(rule.children) - parents:
            raise LanguageError(f"Symbol {min(unknown)} of rule {rule} has no rules of its own.")
        if rule.unary and rule.parent != start:
            raise LanguageError(f"Rule {rule} is unary; only the start symbol {start} may have such rules.")
        if start in rule.children and start in unary:
            raise LanguageError(f"The start symbol {start} has unary rules, so it may not stand in {rule}.")


def _check_reach(start: str, rules: Sequence[Rule]) -> None:
    """Refuse symbols that no derivation holds, and so words that no sentence has."""
    graph = nx.DiGraph((rule.parent, child) for rule in rules if not rule.lexical for child in rule.children)
    graph.add_nodes_from(rule.parent for rule in rules)
    lost = [symbol for symbol in graph if symbol not in {start, *nx.descendants(graph, start)}]
    if lost:
        top = next((symbol for symbol in lost if not set(graph.predecessors(symbol)) - {symbol}), lost[0])
        raise LanguageError(
            f"{', '.join(lost)} cannot be reached from the start {start}; put {top} first or write `% start "
            f"{top}`, or leave out what cannot be reached."
        )


def _grammar(start: str, rules: Sequence[Rule]) -> Grammar:
    """Turn rules into tables, unary ones into the distribution of the first symbol."""
    kept = [rule for rule in rules if not rule.unary]
    symbols = {symbol: number for number, symbol in enumerate(dict.fromkeys(r.parent for r in kept))}
    vocabulary = tuple(sorted(sorted({r.children[0] for r in kept if r.lexical}), key=_natural))
    words = {word: number for number, word in enumerate(vocabulary)}
    roots, emission = np.zeros(len(symbols)), np.zeros((len(symbols), len(words)))
    for rule in rules:
        if rule.unary:
            roots[symbols[rule.children[0]]] += rule.probability
    if start in symbols:
        roots[symbols[start]] += sum(rule.probability for rule in kept if rule.parent == start)
    for rule in kept:
        if rule.lexical:
            emission[symbols[rule.parent], words[rule.children[0]]] += rule.probability
    binary = [rule for rule in kept if not rule.lexical]
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


def _check_sums(rules: Sequence[Rule]) -> None:
    for rule in rules:
        if not 0 <= rule.probability <= 1:
            raise LanguageError(f"The probability of rule {rule} is {rule.probability}; it lies in [0, 1].")
    for parent, total in _sums(rules).items():
        if abs(total - 1) > WRITTEN_TOLERANCE:
            lines = [*dict.fromkeys(str(rule.line) for rule in rules if rule.parent == parent)]
            where = f"line{'s'[: len(lines) - 1]} {', '.join(lines)}"
            raise LanguageError(
                f"Probabilities of {parent} ({where}) sum to {total:.9g}; they must sum to 1, up to "
                f"{WRITTEN_TOLERANCE}, and are then divided by their sum."
            )


def _sums(rules: Sequence[Rule]) -> dict[str, float]:
    totals: dict[str, float] = defaultdict(float)
    for rule in rules:
        totals[rule.parent] += rule.probability
    return totals


def _natural(word: str) -> list:
    """Order w2 before w10; Python makes no number of 4,300 digits."""
    parts: list = re.split(r"(\d+)", word)
    parts[1::2] = [(len(digits), digits) for digits in (part.lstrip("0") for part in parts[1::2])]
    return parts


def _rules(grammar: Grammar) -> Iterator[Rule]:
    """List a grammar's rules, the start's first; a start of several symbols becomes one of its own."""
    names, words = grammar.symbols, grammar.vocabulary
    first = grammar.roots.nonzero().flatten().tolist()
    lead = first if len(first) == 1 else []
    if not lead:
        start = "ROOT"
        while start in names:
            start += "_"
        yield from (Rule(start, (names[s],), False, float(grammar.roots[s])) for s in first)
    for symbol in (*lead, *(s for s in range(len(names)) if s not in lead)):
        mine = grammar.rules[:, 0] == symbol
        binary = zip(grammar.rules[mine].tolist(), grammar.weights[mine].tolist(), strict=True)
        for (_, left, right), p in binary:
            yield Rule(names[symbol], (names[left], names[right]), False, p)
        for word in grammar.emission[symbol].nonzero().flatten().tolist():
            yield Rule(names[symbol], (words[word],), True, float(grammar.emission[symbol, word]))


def to_lines(grammar: Grammar) -> str:
    """Write plain lines `LHS RHS... probability`, with every digit.

    Raises:
        LanguageError: for names that would not read back.

    """
    for name in (*grammar.symbols, *grammar.vocabulary):
        if not re.fullmatch(r"\S+" if name in grammar.vocabulary else r"[^\s#]\S*", name):
            raise LanguageError(f"The name {name!r} cannot be written in this notation.")
    if both := set(grammar.symbols) & set(grammar.vocabulary):
        raise LanguageError(f"{min(both)!r} {NOT_TOLD_APART}.")
    return "".join(f"{r.parent} {' '.join(r.children)} {r.probability!r}\n" for r in _rules(grammar))
