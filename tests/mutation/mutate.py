"""Mutation testing: makes small mistakes in the library, one at a time, and counts those that a test notices."""

import argparse
import fnmatch
import hashlib
import json
import math
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import typing

from mutants import Mutant, mutants_of

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FILES = ["core/**/*.cpp", "core/**/*.h", "ops/**/*.cpp", "ops/**/*.h", "nn/**/*.cpp", "nn/**/*.h",
         "examples/support/run/checkpoint.cpp", "examples/support/run/run_folder.cpp",
         "examples/support/run/training*.cpp"]
NOT = {"ops/cpu/dispatch.cpp"}  # depends on the machine: .ci/run tries it on other machines
DEPENDANTS = 5  # objects that include a header: with more, a mutant would take too long
LONG = {"tests/core/autograd/deep_graph_test.cpp", "tests/nn/allocation_failure_test.cpp",
        "tests/nn/allocation_test.cpp",
        "tests/ops/fastmax/fastmax_forms_test.cpp"}
PROGRAMS = re.compile(r'tiny_run\.h|LINNET_BIN_DIR|run_program\((\w+, )?"')  # found in tests that run programs
ISA = "baseline"  # mutants change only these kernels, which every machine can run
LIMITS = ["prlimit", "--core=0", f"--as={8 << 30}", f"--fsize={1 << 30}"]


def words_of(command: str) -> list[str]:
    """The arguments of the program that a command in Ninja's file runs, without a launcher such as ccache."""
    words = [word for word in shlex.split(command) if word not in (":", "&&")]
    return words[1:] if pathlib.Path(words[0]).name == "ccache" else words


class Build:
    """How the project was built, from the files that CMake wrote for Ninja."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        try:
            rules = json.loads(self.ninja("compdb"))
        except (OSError, subprocess.CalledProcessError):
            rules = []
        self.rules = {rule["output"]: rule for rule in rules}
        archives = ("liblinnet.a", "examples/liblinnet_examples.a")
        if not self.rules.keys() >= {*archives, "bin/linnet_tests"}:
            sys.exit(f"mutate.sh: {folder} is no build by Ninja with programs, tests and a static library; "
                     "./tests/run.sh makes one")
        self.sources = {}  # the library's files, each with the object that a mutant replaces
        self.library = [word for archive in archives
                        for word in shlex.split(self.rules[archive]["command"]) if word.endswith(".o")]
        for output in self.library:
            source = pathlib.Path(self.rules[output]["file"])
            kernels = re.search(r"/linnet_kernels_(\w+)\.dir/", output)
            if source.is_relative_to(ROOT) and (not kernels or kernels[1] == ISA):
                self.sources[source.relative_to(ROOT).as_posix()] = output
        self.users = self.find_users()
        self.programs = [output for output, rule in self.rules.items()
                         if re.fullmatch(r"bin/\w+", output) and not output.startswith("bin/linnet_")]

    def ninja(self, tool: str) -> str:
        return subprocess.run(["ninja", "-C", self.folder, "-t", tool], check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True).stdout

    def find_users(self) -> dict[str, set[str]]:
        """The objects that include each header of the project."""
        users: dict[str, set[str]] = {}
        real: dict[str, str] = {}
        for line in self.ninja("deps").splitlines():
            if line.startswith(" "):
                path = line.strip()
                if path not in real:
                    whole = (self.folder / path).resolve()
                    real[path] = whole.relative_to(ROOT).as_posix() if whole.is_relative_to(ROOT) else ""
                users.setdefault(real[path], set()).add(output)
            elif line:
                output = line.split(": #deps")[0]
        return users

    def objects_of(self, path: str) -> list[str] | None:
        """The objects to compile again when the file changes, or None if they are too many."""
        if not path.endswith(".h"):
            return [self.sources[path]] if path in self.sources else None
        users = {user for user in self.users.get(path, set())
                 if f"linnet_kernels_{ISA}.dir" in user or "linnet_kernels_" not in user}
        return sorted(users) if 0 < len(users) <= DEPENDANTS and users <= set(self.sources.values()) else None

    def run(self, words: list[str], log: pathlib.Path) -> bool:
        with log.open("w") as file:
            return subprocess.run(words, cwd=self.folder, stdout=file, stderr=file).returncode == 0

    def compile(self, output: str, to: pathlib.Path, source: pathlib.Path | None = None,
                first: typing.Sequence[str] = (), last: typing.Sequence[str] = ()) -> bool:
        words = words_of(self.rules[output]["command"])
        for option in ("-MF", "-MT"):
            if option in words:
                at = words.index(option)
                del words[at:at + 2]
        words = [word for word in words if word not in ("-MD", "-Werror")]
        words[words.index("-o") + 1] = str(to)
        if source:
            words[words.index("-c") + 1] = str(source)
        return self.run(LIMITS + [words[0], *first, *words[1:], "-w", "-Wfatal-errors", *last], to.with_suffix(".log"))

    def link_words(self, program: str) -> list[str]:
        return words_of(self.rules[program]["command"])

    def link(self, program: str, folder: pathlib.Path, replaced: dict[str, pathlib.Path]) -> bool:
        """Links the program with other objects in place of some of its own or of its archives; whether it succeeded."""
        words = self.link_words(program)
        others = [str(path) for output, path in replaced.items() if output not in words]
        words = [str(replaced.get(word, word)) for word in words]
        words[words.index("-o"):words.index("-o") + 2] = others + ["-o", str(folder / pathlib.Path(program).name)]
        return self.run(words, folder / f"{pathlib.Path(program).name}.log")


class Tests:
    """The test files, and how long each takes and whether it passes without a mutant."""

    def __init__(self, build: Build):
        objects = [word for word in build.link_words("bin/linnet_tests") if word.endswith(".o")]
        sources = [pathlib.Path(build.rules[output]["file"]) for output in objects]
        texts = {source.relative_to(ROOT).as_posix(): source.read_text() for source in sources}
        self.files = [file for file, text in texts.items() if "TEST_CASE" in text]
        self.of_programs = {file for file in self.files if PROGRAMS.search(texts[file])}
        self.seconds: dict[str, float] = {}  # time of the last run that passed
        self.passes: dict[str, bool] = {}  # without a mutant
        self.lock = threading.Lock()
        self.end = math.inf  # in time.monotonic(): no test begins after it

    def order_for(self, path: str, thorough: bool) -> list[str]:
        """First those named like the changed file, then those of its folder, then the others; the fastest first."""
        def words(name: str) -> list[str]:
            return pathlib.Path(name).stem.removesuffix("_test").split("_")

        def alike(file: str) -> int:
            length = max(len(os.path.commonprefix([a, b])) for a in words(path) for b in words(file))
            return length if length > 3 and room(file) else 0

        def room(file: str) -> bool:
            return file.split("/")[1] == path.split("/")[0]

        def needed(file: str) -> bool:
            return (thorough or (file not in LONG or alike(file) > 0) and
                    (file not in self.of_programs or room(file)))
        return sorted(filter(needed, self.files),
                      key=lambda file: (not room(file), -alike(file), self.seconds.get(file, 0), file))

    def limit(self, file: str) -> int:
        """The time limit in seconds: a multiple of its time on a busy machine."""
        return 900 if file in LONG or file in self.of_programs else 120


class Outcome(typing.NamedTuple):
    what: str  # caught, survived, or why it is not counted: did not compile, no difference, not finished
    by: str = ""


class Worker:
    """A folder for the programs and the tests with a mutant."""

    def __init__(self, build: Build, tests: Tests, folder: pathlib.Path):
        self.build, self.tests, self.folder = build, tests, folder
        shutil.rmtree(folder, ignore_errors=True)
        for name in ("bin", "objects", "include", "tmp"):
            (folder / name).mkdir(parents=True)
        self.own: dict[str, pathlib.Path] = {}

    def own_objects(self) -> dict[str, pathlib.Path]:
        """The objects of tests that hold the programs' folder, compiled for this folder."""
        place = ["-ULINNET_BIN_DIR", f'-DLINNET_BIN_DIR="{self.folder / "bin"}"']
        for output in self.build.link_words("bin/linnet_tests"):
            if (output.endswith(".o") and output not in self.own and
                    "LINNET_BIN_DIR" in pathlib.Path(self.build.rules[output]["file"]).read_text()):
                self.own[output] = self.folder / "objects" / f"own_{pathlib.Path(output).name}"
                if not self.build.compile(output, self.own[output], last=place):
                    raise RuntimeError(f"cannot compile {output}: see {self.own[output].with_suffix('.log')}")
        return self.own

    def test(self, file: str, folder: pathlib.Path) -> str:
        """How the tests of a file fail; empty if they pass."""
        variables = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
        variables |= {"TMPDIR": str(self.folder / "tmp"), "LINNET_ISA": ISA, "LINNET_NUM_THREADS": "2",
                      "LINNET_KILLS": "1", "LINNET_KILL_SEED": "1"}
        log = self.folder / "test.log"
        with log.open("w") as output:
            process = subprocess.Popen(LIMITS + [str(folder / "bin" / "linnet_tests"), "--no-colors", "--abort-after=1",
                                                 f"--source-file=*/{file}"], env=variables, cwd=self.folder / "tmp",
                                       stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
            try:
                status = process.wait(self.tests.limit(file))
            except subprocess.TimeoutExpired:
                status = None
            try:
                os.killpg(process.pid, signal.SIGKILL)  # also the processes that it started
            except ProcessLookupError:
                pass
            process.wait()
        shutil.rmtree(self.folder / "tmp", ignore_errors=True)
        (self.folder / "tmp").mkdir()
        if status == 0:
            return ""
        if status is None:
            return f"{file}: no end after {self.tests.limit(file)} s"
        cases = re.findall(r"^TEST CASE: +(.*)$", log.read_text(errors="replace"), re.MULTILINE)
        return f"{file}: {cases[-1] if cases else f'ended with status {status}'}"

    def passes_without_mutant(self, file: str) -> bool:
        """Whether the test file passes now without the mutant, which must hold before a mutant counts as caught."""
        with self.tests.lock:
            if file not in self.tests.passes:
                failure = self.test(file, self.build.folder)
                if failure:
                    print(f"left out, as it fails without a mutant: {failure}", flush=True)
                self.tests.passes[file] = not failure
            return self.tests.passes[file]

    def try_mutant(self, mutant: Mutant, thorough: bool) -> Outcome:
        text = (ROOT / mutant.path).read_text()
        text = text[:mutant.begin] + mutant.new + text[mutant.end:]
        source, include = None, []
        if mutant.path.endswith(".h"):
            changed = self.folder / "include" / "linnet" / mutant.path
            include = [f"-I{self.folder / 'include'}"]
        else:
            source = changed = self.folder / "objects" / pathlib.Path(mutant.path).name
            text = f'#line 1 "{ROOT / mutant.path}"\n{text}'  # errors and profiles name it
        changed.parent.mkdir(parents=True, exist_ok=True)
        changed.write_text(text)
        replaced, differs = {}, False
        try:
            for output in self.build.objects_of(mutant.path) or []:
                replaced[output] = self.folder / "objects" / pathlib.Path(output).name
                if not self.build.compile(output, replaced[output], source, first=include):
                    return Outcome("did not compile")
                differs |= replaced[output].read_bytes() != (self.build.folder / output).read_bytes()
        finally:
            changed.unlink()
        if not differs:
            return Outcome("no difference")
        files = self.tests.order_for(mutant.path, thorough)
        programs = not self.tests.of_programs.isdisjoint(files)
        if not self.build.link("bin/linnet_tests", self.folder / "bin",
                               replaced | (self.own_objects() if programs else {})):
            return Outcome("did not link")
        for file in files:
            if not self.tests.passes.get(file, True):
                continue
            if time.monotonic() > self.tests.end:
                return Outcome("not finished")
            if file in self.tests.of_programs and programs:
                for program in self.build.programs:
                    self.build.link(program, self.folder / "bin", replaced)
                programs = False  # they are linked now
            begin = time.monotonic()
            failure = self.test(file, self.folder)
            if not failure:
                self.tests.seconds[file] = time.monotonic() - begin
            elif self.passes_without_mutant(file):
                return Outcome("caught", failure)
        return Outcome("survived")


def chosen(mutants: list[Mutant], seed: int) -> list[Mutant]:
    """The mutants in an order given by the seed: one of each file, then a second of each, … Edits elsewhere keep it."""
    def shuffled(mutant: Mutant) -> str:
        return hashlib.sha256(f"{seed} {mutant.id}".encode()).hexdigest()

    rounds: dict[str, int] = {}
    order = []
    for mutant in sorted(mutants, key=shuffled):
        rounds[mutant.path] = rounds.get(mutant.path, 0) + 1
        order.append((rounds[mutant.path], mutant))
    return [mutant for _, mutant in sorted(order, key=lambda entry: entry[0])]


def read_explained(path: pathlib.Path) -> set[str]:
    lines = path.read_text().splitlines() if path.exists() else []
    return {line.split()[0] for line in lines if line.strip() and not line.startswith(("#", " "))}


def describe(mutant: Mutant) -> str:
    return f"{mutant.id} line {mutant.line}, {mutant.kind}\n    - {mutant.was}\n    + {mutant.becomes}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/mutate.sh", description=__doc__)
    parser.add_argument("--count", type=int, default=40, help="number of mutants to test (40)")
    parser.add_argument("--seed", type=int, default=1, help="chooses the mutants (1)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="after this time no mutant and no test begins, "
                        "and the share is that of the mutants tested so far (no limit)")
    parser.add_argument("--files", default="*", metavar="GLOB", help="only mutants of these files, such as 'ops/cpu/*'")
    parser.add_argument("--mutants", nargs="+", metavar="ID", help="only these, even if they are in survivors.txt")
    parser.add_argument("--thorough", action="store_true", help="run all tests for each mutant, also slow tests "
                        "of other subjects and those that run programs")
    parser.add_argument("--list", action="store_true", help="print the mutants instead of trying them")
    parser.add_argument("--share", type=float, default=95, help="exit with status 1 if fewer per cent are caught (95)")
    parser.add_argument("--at-least", type=int, default=5, help="exit with status 1 if fewer mutants are caught or "
                        "survive, unless there are no more (5)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="that of ./tests/run.sh (build)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutants at a time (one for each processor)")
    arguments = parser.parse_args()

    build = Build(arguments.build.resolve())
    explained = read_explained(ROOT / "tests/mutation/survivors.txt")
    paths = sorted({path.relative_to(ROOT).as_posix() for pattern in FILES for path in ROOT.glob(pattern)} - NOT)
    mutants = [mutant for path in paths if build.objects_of(path)
               for mutant in mutants_of(path, (ROOT / path).read_text())]
    gone = explained - {mutant.id for mutant in mutants}
    if gone:
        print("tests/mutation/survivors.txt explains what is no mutant now:", *sorted(gone), sep="\n  ")
    if arguments.mutants:
        by_id = {mutant.id: mutant for mutant in mutants}
        order = [by_id[name] for name in arguments.mutants]
    else:
        order = [mutant for mutant in chosen(mutants, arguments.seed)
                 if mutant.id not in explained and fnmatch.fnmatch(mutant.path, arguments.files)]
    if arguments.list:
        print(*(describe(mutant) for mutant in order[:arguments.count]), sep="\n")
        return 0
    return judge(build, order, arguments)


def judge(build: Build, order: list[Mutant], arguments: argparse.Namespace) -> int:
    begin = time.monotonic()
    tests = Tests(build)
    tests.end = begin + 60 * arguments.minutes
    counts: dict[str, int] = {}
    changed = threading.Condition()
    waiting = list(reversed(order))
    in_work = 0

    def take() -> Mutant | None:
        """The next mutant, when it is sure to be needed, since a mutant that is being tested may not count."""
        nonlocal in_work
        with changed:
            while waiting and time.monotonic() < tests.end:
                judged = counts.get("caught", 0) + counts.get("survived", 0)
                if judged + in_work < arguments.count or arguments.mutants:
                    in_work += 1
                    return waiting.pop()
                if judged >= arguments.count:
                    break
                changed.wait(timeout=1)
            return None

    def work(number: int) -> None:
        nonlocal in_work
        worker = Worker(build, tests, build.folder / "mutation" / str(number))
        while mutant := take():
            start = time.monotonic()
            outcome = worker.try_mutant(mutant, arguments.thorough)
            with changed:
                in_work -= 1
                counts[outcome.what] = counts.get(outcome.what, 0) + 1
                print(f"{outcome.what}, {time.monotonic() - start:.1f} s: {describe(mutant)}")
                if outcome.by:
                    print(f"    {outcome.by}")
                sys.stdout.flush()
                changed.notify_all()

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(arguments.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    caught, survived = counts.get("caught", 0), counts.get("survived", 0)
    share = 100 * caught / max(caught + survived, 1)
    others = "".join(f", {count} {what}" for what, count in counts.items() if what not in ("caught", "survived"))
    print(f"{caught} of {caught + survived} mutants caught: {share:.1f} %{others}; {time.monotonic() - begin:.0f} s")
    expected = min(arguments.at_least, arguments.count, len(order))
    if caught + survived < expected:
        print(f"{caught + survived} mutants tell nothing; at least {expected} were to be tested")
        return 1
    return int(share < arguments.share)


if __name__ == "__main__":
    sys.exit(main())
