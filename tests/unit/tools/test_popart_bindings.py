"""The table of PopART's bindings is what C++ and Python sources say."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.checkout import ROOT
from tools.popart_bindings.bindings import read_module
from tools.popart_bindings.cxx import default_of, kind_of, parts
from tools.popart_bindings.headers import Headers
from tools.popart_bindings.python_layer import read_classes

HEADER = """
namespace popart {
enum class Colour { Red = 2, None, Blue = Red };  // a comment, with a comma
constexpr const char *prefix() { return "P___"; }
class Base { public: void paint(const std::set<TensorId> &ids, float share); };
class Box : public Base {
public:
  Box(int n) : size{n} { size = n; }
  struct Inner { bool flag; };
  std::vector<int> sides() const;
  Colour colour = Colour::None;
  std::map<std::string, float> shares;
  int size{3};
};
}
"""
BINDING = """
PYBIND11_MODULE(core, m) {
  m.def("prefix", &prefix);
  {
    py::enum_<Colour> en(m, "Colour");
    en.value("Red", Colour::Red, DOC(a, "b, c"));
    en.value("Nothing", Colour::None);
  }
  py::class_<Base> base(m, "Base");
  py::class_<Box> cls(m, "Box", base, DOC(popart, Box));
  cls.def(py::init<int, Colour>(), py::arg("n"), py::arg("colour") = Colour::None);
  cls.def(py::init([](py::dict options) { return Box(options, ")"); }));
  cls.def("paint", &Box::paint);
  cls.def("sides", &Box::sides);
  cls.def("grow",
          [](Box &self, const std::vector<int64_t> &by, nonstd::optional<float> f) -> TensorId {
            return self.grow(by);
          },
          py::arg("by") = std::vector<int64_t>(), py::arg("f") = py::none());
  cls.def_readwrite("colour", &Box::colour);
  cls.def_readwrite("shares", &Box::shares, DOC(popart, Box, shares));
  cls.def_readonly("size", &Box::size);
}
"""


def test_classes_methods_fields_and_enumerations_are_read() -> None:
    module = read_module(BINDING, Headers([HEADER]))
    assert module.enumerations == {"Colour": {"Red": 2, "Nothing": 3}}
    assert module.spellings["Colour.None"] == "Colour.Nothing"
    assert module.constants == {"prefix": '"P___"'}
    box = module.classes["Box"]
    assert box.base == "Base"
    assert {name: [str(form) for form in forms] for name, forms in box.methods.items()} == {
        "__init__": ["(n: int, colour: Colour = Colour.None)", "(dict)"],
        "paint": ["(set[str], float)"],
        "sides": ["() -> list[int]"],
        "grow": ["(by: list[int] = [], f: float | None = None) -> str"],
    }
    assert box.fields == {
        "colour": ("Colour", "Colour.None"),
        "shares": ("dict[str, float]", "{}"),
        "size": ("int", None),
    }
    assert box.read_only == {"size"}


def test_types_and_defaults_are_those_of_python() -> None:
    assert kind_of("const std::map<TensorId, std::pair<float, bool>> &") == (
        "dict[str, tuple[float, bool]]"
    )
    assert kind_of("std::shared_ptr<popart::DeviceInfo>") == "DeviceInfo | None"
    assert parts("std::map<int, float> a, f(b, c), ','") == [
        "std::map<int, float> a", "f(b, c)", "','",
    ]  # fmt: skip
    for text, kind, found in (
        ("1e-05f", "float", "1e-05"),
        ('std::string("x")', "str", "'x'"),
        (
            "TensorLocationSettings{TensorLocation(), 2}",
            "",
            "TensorLocationSettings(TensorLocation(), 2)",
        ),
        ("static_cast<int>(TensorRemapType::Fwd)", "int", "TensorRemapType.Fwd.value"),
        ("{}", "set[str]", "set()"),
    ):
        assert default_of(text, kind) == found
    with pytest.raises(ValueError, match="no word for the type"):
        kind_of("std::bitset<3>")


def test_classes_in_python_are_read() -> None:
    (made,) = read_classes(
        "class A(core.B):\n"
        "    def __init__(self, x: int, y: str = popart.C()) -> None: ...\n"
        "    def _hidden(self): ...\n"
        "    @property\n"
        "    def z(self): ...\n"
    ).values()
    assert made.base == "B" and made.read_only == {"z"}
    assert [str(form) for form in made.methods["__init__"]] == ["(x: object, y: object = C())"]


@pytest.mark.skipif("POPART_GIT" not in os.environ, reason="POPART_GIT names no repository")
def test_the_table_is_what_poparts_sources_say() -> None:
    command = [sys.executable, "-m", "tools.popart_bindings", "--check"]
    subprocess.run(command, check=True, cwd=ROOT)


def test_without_a_repository_it_says_what_to_do() -> None:
    environment = {name: text for name, text in os.environ.items() if name != "POPART_GIT"}
    command = [sys.executable, "-m", "tools.popart_bindings", "--check"]
    done = subprocess.run(
        command, check=False, cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "name PopART's git directory with --git, or by POPART_GIT" in done.stderr
