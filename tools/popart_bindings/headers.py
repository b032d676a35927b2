"""PopART's C++ headers: the parameters of a method, the type of a member, an enumeration."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from tools.popart_bindings.cxx import closing, kind_of, parts, without_comments


class Headers:
    """The text of all headers.

    Args:
        texts: the headers' contents.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._text = without_comments("\n".join(texts))
        self.members = cache(self._members)
        self._bodies = cache(self._find_bodies)

    def _find_bodies(self, name: str) -> list[tuple[str, list[str]]]:
        """Bodies of a class, which may be nested in another, with the classes it comes from."""
        outer, _, inner = name.rpartition("::")
        text = "\n".join(body for body, _ in self._bodies(outer)) if outer else self._text
        found = []
        for match in re.finditer(rf"\b(?:class|struct)\s+{inner}\b(?:\s+final)?\s*([:{{])", text):
            start = text.index("{", match.end(1) - 1)
            bases = re.findall(r"(?:public|virtual)\s+([\w:]+)", text[match.end() : start])
            found.append((text[start + 1 : closing(text, start)], bases))
        return found

    def parameters(self, owner: str, method: str) -> list[str] | None:
        """The types that a method or a function takes; None where no header declares it."""
        texts = [self._text] if not owner else [body for body, _ in self._bodies(owner)]
        for text in texts:
            for match in re.finditer(rf"[\w>&*]\s+[&*]*{method}\s*\(", text):
                end = closing(text, match.end() - 1)
                declared = text[match.end() : end]
                if re.match(r"\s*(const|noexcept|override|final|=\s*0|\s)*[;{]", text[end + 1 :]):
                    return [type_of(part) for part in parts(declared)]
        for _, bases in self._bodies(owner) if owner else []:
            for base in bases:
                found = self.parameters(base.rpartition("::")[2], method)
                if found is not None:
                    return found
        return None

    def result(self, owner: str, method: str) -> str | None:
        """The type that a method gives; None where no header declares it."""
        bodies = self._bodies(owner) if owner else [(self._text, [])]
        for text, bases in bodies:
            for match in re.finditer(
                rf"(?:^|[;{{}}:])\s*((?:\w+\s+)*?[\w:]+(?:<[^;{{}}()]*>)?[\s&*]+)\b{method}\s*\(",
                text,
            ):
                words = r"\b(virtual|static|inline|constexpr|explicit)\b"
                found = re.sub(words, "", match[1]).strip()
                if found not in ("return", "throw", ""):
                    return "str" if re.sub(r"\s", "", found) == "constchar*" else kind_of(found)
            for base in bases:
                found_there = self.result(base.rpartition("::")[2], method)
                if found_there is not None:
                    return found_there
        return None

    def constant(self, name: str) -> str | None:
        """The number or text of a constant, or of a function that gives only that."""
        match = re.search(
            rf"\b{name}\b(?:\s*\(\)\s*\{{\s*return\s+|\s*=\s*|\s*\{{)\s*(\d+|\"[^\"]*\")\s*[;}}]",
            self._text,
        )
        return None if match is None else match[1]

    def _members(self, owner: str, name: str) -> tuple[str, str | None]:
        """The type of a member and its default."""
        for body, _ in self._bodies(owner):
            text = _declarations(body)
            match = re.search(
                rf"(?:^|[;{{}}])\s*(?:public:|private:)?\s*(\w[\w:<>,\s&*]*?)\s*\b{name}\s*"
                rf"(?:=\s*([^;]*)|(\{{[^;]*\}}))?;",
                text,
            )
            if match:
                return match[1], match[2] if match[2] is not None else match[3]
        raise ValueError(f"no header declares {owner}::{name}")

    def enumeration(self, name: str) -> dict[str, int] | None:
        """Members of an enumeration and their numbers; None where no header has it."""
        match = re.search(rf"\benum class {name}\b[^{{;]*\{{([^}}]*)\}}", self._text)
        if match is None:
            return None
        members: dict[str, int] = {}
        following = 0
        for part in parts(match[1]):
            member, _, value = part.partition("=")
            value = value.strip()
            following = following if not value else members.get(value, 0) or int(value, 0)
            members[member.strip()] = following
            following += 1
        return members


_BLOCK = re.compile(
    r"(\)\s*(?:const|noexcept|override|\s)*(?::[^{;]*)?|\b(?:class|struct|enum)\b[^;{}()]*)\{"
)


def _declarations(body: str) -> str:
    """The body of a class without those of its methods and of what is nested in it."""
    at = 0
    while match := _BLOCK.search(body, at):
        opening = match.end() - 1
        body = f"{body[:opening]};{body[closing(body, opening) + 1 :]}"
        at = opening
    return body


def type_of(declared: str) -> str:
    """The type of a declared parameter: its name and its default away."""
    declared = parts(declared.replace("=", ", ", 1))[0] if "=" in declared else declared
    match = re.fullmatch(r"(.*[\s&*>])(\w+)", declared.strip(), re.DOTALL)
    words = ("int", "long", "char", "float", "double", "bool", "unsigned")
    if match and match[1].strip() not in ("const", "") and match[2] not in words:
        return match[1]
    return declared
