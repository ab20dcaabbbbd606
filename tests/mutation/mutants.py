"""Small changes of C++ source text, for mutate.py.

The text is cut into tokens. The script does not parse C++; it relies on clang-format's spaces: an operator with a space
on both sides has two operands, and `<` without spaces begins template arguments. A mutant that does not compile is not
counted.
"""

import hashlib
import re
import typing


class Token(typing.NamedTuple):
    text: str
    begin: int
    end: int


class Mutant(typing.NamedTuple):
    path: str  # the file, from the project's root
    kind: str
    line: int  # from 1 on
    begin: int
    end: int  # text[begin:end] of the file becomes:
    new: str
    was: str  # the line before and after
    becomes: str
    id: str  # path and a hash of kind, line and occurrence: moves with the line


TOKEN = re.compile(
    r"""(?P<skip>\s+|//(?:\\\n|[^\n])*|/\*.*?\*/)
    |(?P<raw>(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]*)\(.*?\)(?P=delimiter)")
    |(?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\])*")
    |(?P<char>(?:u8|[uUL])?'(?:\\.|[^'\\])+')
    |(?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<operator><<=|>>=|<=>|\.\.\.|->|\+\+|--|<<|&&|\|\||[-+*/%&|^<>=!]=|::|.)""",
    re.VERBOSE | re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)

BINARY = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=",
          "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&"}
KINDS = dict.fromkeys(("+", "-", "*", "/", "%", "+=", "-=", "*=", "/="), "arithmetic")
KINDS |= dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), "comparison") | dict.fromkeys(("&&", "||"), "logic")
WORDS = {"true": "false", "false": "true", "min": "max", "max": "min"}
# Tokens that end a term of a sum.
TERM_ENDS = {"+", "-", "<", "<=", ">", ">=", "==", "!=", "&&", "||", ",", ";", "?", ":", "<<", "=", "+=", "-=", "*=",
             "/=", ")", "]", "}", "{"}
# Statements without a value to change: exceptions and messages, compile-time checks, names.
UNTOUCHED = {"throw", "static_assert", "using", "namespace", "template", "operator", "asm", "friend"}
MESSAGES = {"format", "alignas", "sizeof", "Call", "refuse_device"}
WITHOUT_EFFECT = {"reserve", "yield", "sched_yield", "_mm_pause"}  # calls that change nothing but speed
# Last words of arguments whose type differs from that of arguments without them.
DISTINCT = {"where", "device", "dtype", "shape", "strides", "options", "keep", "true", "false"}
FLOATING = {"double", "float", "T", "Tensor"}  # results of functions that may become NaN
QUALIFIERS = {"const", "noexcept", "override", "final"}  # between a function's parameters and its body
BLOCKS = {"if", "for", "while", "switch", "catch", "else", "do", "try", "constexpr"}
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}


def tokens_of(text: str) -> list[Token]:
    directives = {match.start(): match.end() for match in DIRECTIVE.finditer(text)}
    starts = sorted(directives)
    tokens, at = [], 0
    while at < len(text):
        while starts and starts[0] < at:  # inside a comment or a string
            starts.pop(0)
        if starts and starts[0] == at:
            at = directives[at]
            continue
        match = TOKEN.match(text, at)
        assert match, text[at:at + 40]
        end = match.end()
        if match.lastgroup == "skip":
            line = text.rfind("\n", at, end) + 1  # a directive's line may begin with spaces that belong to it
            end = line if line and any(line == start for start in starts) else end
        else:
            tokens.append(Token(match.group(), at, end))
        at = max(end, at + 1)
    return tokens


class File:
    """The tokens of a file, and which of them may be changed."""

    def __init__(self, path: str, text: str):
        self.path, self.text, self.tokens = path, text, tokens_of(text)
        self.partner = self.pair_brackets()
        self.fixed = self.find_fixed()
        self.found: list[tuple[str, int, int, str]] = []

    def pair_brackets(self) -> dict[int, int]:
        partner, stack = {}, []
        for i, token in enumerate(self.tokens):
            if token.text in OPEN:
                stack.append(i)
            elif token.text in CLOSE and stack:
                partner[i] = stack.pop()
                partner[partner[i]] = i
        return partner

    def find_fixed(self) -> set[int]:
        fixed: set[int] = set()
        for i, token in enumerate(self.tokens):
            if token.text in UNTOUCHED:
                end = i
                while end < len(self.tokens) and self.tokens[end].text not in (";", "{"):
                    end = self.partner.get(end, end) + 1 if self.tokens[end].text in OPEN else end + 1
                    if token.text == "template" and self.tokens[end - 1].text == ">":
                        break
                fixed.update(range(i, end))
            elif token.text in MESSAGES and self.at(i + 1) == "(" and i + 1 in self.partner:
                fixed.update(range(i, self.partner[i + 1] + 1))
            elif token.text == "if" and i + 1 in self.partner:  # a second device, which needs a build with CUDA
                if re.search(r"device\(\) !=|is_cuda|Device::cuda", self.source(i + 1, self.partner[i + 1])):
                    fixed.update(range(i, self.partner[i + 1] + 1))
            elif token.text == "Call" and self.at(i + 2) == "(" and i + 2 in self.partner:
                fixed.update(range(i, self.partner[i + 2] + 1))
        return fixed

    def at(self, i: int) -> str:
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def spaced(self, i: int) -> bool:
        token = self.tokens[i]
        return self.text[token.begin - 1].isspace() and self.text[token.end:token.end + 1].isspace()

    def add(self, kind: str, begin: int, end: int, new: str) -> None:
        """Tokens [begin, end) become `new`."""
        self.found.append((kind, self.tokens[begin].begin, self.tokens[end - 1].end, new))

    def source(self, begin: int, end: int) -> str:
        return self.text[self.tokens[begin].begin:self.tokens[end - 1].end]

    def change(self) -> None:
        for i, token in enumerate(self.tokens):
            if i in self.fixed:
                continue
            text = token.text
            if text in BINARY and self.spaced(i) and self.at(i - 1) != "operator":
                self.add(KINDS[text], i, i + 1, BINARY[text])
                if text in "+-":
                    self.drop_term(i)
            elif text == "-" and not self.spaced(i) and re.match(r"[\w(]", self.at(i + 1)):
                self.add("sign", i, i + 1, "")
            elif text in WORDS and (text in ("true", "false") or self.at(i - 1) == "::"):
                self.add("constant", i, i + 1, WORDS[text])
            elif text[0].isdigit() and self.at(i - 1) not in ("<", "<=", ">", ">="):  # its own mutants do the same
                self.number(i)
            elif text == "return" and self.result_type(i) in FLOATING:
                self.nan(i)
            elif text == "(":
                if self.at(i - 1) == "if" and i - 1 not in self.fixed:
                    self.condition(i)
                elif re.match(r"\w", self.at(i - 1)) and self.at(i - 1) not in ("for", "while", "switch", "return"):
                    self.swap(i)
            elif text in (";", "{", "}") or (text == ")" and self.at(self.partner.get(i, 0) - 1) in ("if", "for")):
                self.drop_call(i + 1)

    def number(self, i: int) -> None:
        text = self.at(i)
        if re.fullmatch(r"\d+", text):
            self.add("constant", i, i + 1, {"0": "1", "1": "0"}.get(text, str(int(text) + 1)))
        elif re.fullmatch(r"[\d.']+(e[-+]?\d+)?F?", text):
            value = float(text.rstrip("F").replace("'", ""))
            self.add("constant", i, i + 1, f"({text} * 1.01)" if value else text.replace("0.0", "1.0"))

    def result_type(self, i: int) -> str:
        """The last word of the return type of the function around a token; empty if none is written."""
        while i > 0:
            i -= 1
            if self.at(i) in CLOSE:
                i = self.partner.get(i, i)
            elif self.at(i) == "{":
                head = i - 1
                while self.at(head) in QUALIFIERS:
                    head -= 1
                if self.at(head - 1) == "->":
                    return self.at(head)
                name = self.partner.get(head, head) - 1 if self.at(head) == ")" else head
                if self.at(name) in BLOCKS:
                    continue
                while self.at(name - 1) == "::":
                    name -= 2
                return self.at(name - 1)
        return ""

    def nan(self, i: int) -> None:
        end = i + 1
        while end < len(self.tokens) and self.at(end) != ";":
            end = self.partner.get(end, end) + 1 if self.at(end) in OPEN else end + 1
        if i + 1 < end < len(self.tokens) and self.at(i + 1) != "{":
            self.add("NaN", i + 1, end, f'({self.source(i + 1, end)}) * __builtin_nan("")')

    def drop_term(self, i: int) -> None:
        end = i + 1
        while end < len(self.tokens) and not (self.at(end) in TERM_ENDS and (self.at(end) in CLOSE | {",", ";", "{"} or
                                                                              self.spaced(end))):
            end = self.partner.get(end, end) + 1 if self.at(end) in OPEN else end + 1
        self.add("dropped term", i, end, "")

    def condition(self, i: int) -> None:
        close = self.partner[i]
        inside = self.source(i + 1, close)
        then = close + 2 if self.at(close + 1) == "{" else close + 1
        if self.at(then) == "throw" or self.at(then).startswith("refuse"):
            self.add("dropped check", i + 1, close, f"false && ({inside})")
        else:
            self.add("condition", i + 1, close, f"!({inside})")

    def swap(self, i: int) -> None:
        close = self.partner[i]
        arguments, begin, at = [], i + 1, i + 1
        while at < close:
            if self.at(at) == ",":
                arguments.append((begin, at))
                begin = at + 1
            at = self.partner.get(at, at) + 1 if self.at(at) in OPEN else at + 1
        arguments.append((begin, close))
        for (a, b), (c, d) in zip(arguments, arguments[1:]):
            if a >= b or c >= d or a in self.fixed or any(re.search(r"[\w>][*&]* \w+( =.*)?$", self.source(*part))
                                                          for part in ((a, b), (c, d))):
                continue  # a declaration
            first, second = self.source(a, b), self.source(c, d)
            if first != second and self.may_be_alike(a, b, c, d):
                self.add("swapped arguments", a, d, f"{second}, {first}")

    def may_be_alike(self, a: int, b: int, c: int, d: int) -> bool:
        """Whether two arguments may have the same type, judged by their words; the compiler decides the other cases."""
        def sort(begin: int, end: int) -> str:
            first = self.at(begin)
            if first[-1] in "\"'" or first in "[{*&":
                return first[0]
            last = re.findall(r"[A-Za-z]\w*", self.source(begin, end)) or [""]
            return last[-1] if last[-1] in DISTINCT else "word"
        return sort(a, b) == sort(c, d)

    def drop_call(self, i: int) -> None:
        """Leaves out a statement that is only a call."""
        at, name = i, False
        while self.at(at) in ("::", ".", "->") or re.match(r"[A-Za-z_]", self.at(at)):
            word = bool(re.match(r"[A-Za-z_]", self.at(at)))
            if word and name:
                return  # a declaration or a keyword
            name = word
            at += 1
            if self.at(at) == "(":
                if not word or at not in self.partner or self.at(at - 1) in ("if", "for", "while", "switch", "return"):
                    return
                called, at = self.at(at - 1), self.partner[at] + 1
                if self.at(at) == ";" and i not in self.fixed and called not in WITHOUT_EFFECT:
                    self.add("dropped call", i, at, "")
                    return

    def mutants(self) -> list[Mutant]:
        self.change()
        seen: dict[str, int] = {}
        mutants = []
        for kind, begin, end, new in sorted(self.found, key=lambda found: found[1:]):
            first, last = self.text.rfind("\n", 0, begin) + 1, self.text.find("\n", end)
            was = " ".join(self.text[first:last].split())
            becomes = " ".join((self.text[first:begin] + new + self.text[end:last]).split())
            key = f"{kind}\n{was}\n{becomes}"
            seen[key] = seen.get(key, 0) + 1
            digest = hashlib.sha256(f"{key}\n{seen[key]}".encode()).hexdigest()[:8]
            mutants.append(Mutant(self.path, kind, self.text.count("\n", 0, begin) + 1, begin, end, new, was, becomes,
                                  f"{self.path}:{digest}"))
        return mutants


def mutants_of(path: str, text: str) -> list[Mutant]:
    return File(path, text).mutants()
