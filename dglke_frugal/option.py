"""How an option is declared: one field of a frozen dataclass says everything about a flag.

The command line, --config, the identity of a run, the page of flags and the lines on flags without effect are made
from these declarations.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Optional, Sequence, Tuple, Type, TypeVar

T = TypeVar("T")
_KEY = "option"


@dataclass(frozen=True)
class Change:
    """How the numbers of a run depend on an option.

    words: when they do, for the page of flags. part: (configuration, value) -> the part of the value that they depend
        on, None if they do not depend on it.
    """

    words: str
    part: Callable[[Any, Any], Any]


ALWAYS = Change("yes", lambda config, value: value)
NEVER = Change("no", lambda config, value: None)


def only(words: str, condition: Callable[[Any], Any]) -> Change:
    """Of an option that changes the numbers where the condition holds for the configuration."""
    return Change(words, lambda config, value: value if condition(config) else None)


@dataclass(frozen=True)
class When:
    """A condition on a configuration.

    words: what to tell users whose option has no effect because it does not hold. by_part: whether it may hold in one
        part of a run that is resumed and not in another, so that it does not decide what the run's numbers depend on.
    """

    words: str
    holds: Callable[[Any], bool]
    by_part: bool = False


IN_EVERY_RUN = When("", lambda config: True)


@dataclass(frozen=True)
class Option:
    """The declaration of a field.

    Attributes:
        name: of the flag and the field. short: DGL-KE's short name, such as -adv.
        help: one line. default_words: the default in words, where its value says too little.
        changes: how the numbers of a run depend on the value, where the option is used.
        used: the runs in which the option has an effect. new_runs_only: whether --resume ignores it.
        parse: reads one value of the command line; raises ArgumentTypeError.
        many: whether the flag takes several values. metavar: what stands for a value in the help.
        of_dglke: whether the flag is DGL-KE's own, which may be abbreviated.
        dglke_loop: values besides the default with which DGL-KE's own loop may be asked to train; None for any value.
        level: "first" of the flags that matter most, "rare" of the ones that only --help-all explains.
        annotation: the type of the field, as source text.
    """

    name: str
    default: Any
    help: str
    default_words: Optional[str]
    changes: Change
    used: When
    new_runs_only: bool
    parse: Callable[[str], Any]
    choices: Optional[Sequence[Any]]
    many: bool
    metavar: Optional[str]
    short: Optional[str]
    of_dglke: bool
    dglke_loop: Optional[Tuple[Any, ...]]
    group: str
    level: str
    annotation: str

    @property
    def is_switch(self) -> bool:
        """Whether the flag is given without a value."""
        return isinstance(self.default, bool)


def option(default: Any, help: str, *, changes: Change, used: When = IN_EVERY_RUN,
           type: Optional[Callable[[str], Any]] = None, choices: Optional[Sequence[Any]] = None, many: bool = False,
           metavar: Optional[str] = None, short: Optional[str] = None, of_dglke: bool = False,
           dglke_loop: Optional[Sequence[Any]] = (), group: Optional[str] = None, level: str = "",
           default_words: Optional[str] = None, new_runs_only: bool = False) -> Any:
    """A field of an options class; see Option. type: `parse`, by default the type of the default, str for `many`.
    group: of the help, by default that of the class."""
    parse = type or (str if default is None or many else default.__class__)
    return dataclasses.field(default=default, metadata={_KEY: dict(
        default=default, help=help, default_words=default_words, changes=changes, used=used,
        new_runs_only=new_runs_only, parse=parse, choices=choices, many=many, metavar=metavar, short=short,
        of_dglke=of_dglke, dglke_loop=None if of_dglke or dglke_loop is None else tuple(dglke_loop), group=group,
        level=level)})


def options(group: str) -> Callable[[Type[T]], Type[T]]:
    """Class decorator of a frozen dataclass whose fields are options. group: of the help.

    Raises TypeError for a field that is not declared by `option`, and so does not say whether it changes numbers.
    """

    def checked(cls: Type[T]) -> Type[T]:
        for field in dataclasses.fields(cls):
            if _KEY not in field.metadata:
                raise TypeError(f"{cls.__name__}.{field.name} is not declared by option(), which says whether it "
                                "changes the numbers of a run")
        cls.options = tuple(
            Option(name=field.name, annotation=str(field.type), **_in_group(field.metadata[_KEY], group))
            for field in dataclasses.fields(cls))
        return cls

    return checked


def _in_group(metadata: Mapping[str, Any], group: str) -> Mapping[str, Any]:
    return {**metadata, "group": metadata["group"] or group}
