"""``paddle.static.IpuCompiledProgram``: a Paddle program becomes a program for the IPU.

What is heavy is imported when a program is compiled: importing Paddle brings this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from paddle_ipu.compiler.progress import Percent, progress_of
from paddle_ipu.compiler.source import Source, kind_of, strategy_or_new
from paddle_ipu.errors import InvalidProgramError, NotSupported
from paddle_ipu.frontend import programs
from paddle_ipu.options.process_changes import collection_put_off
from paddle_ipu.options.strategy import check_consistent, represented_in_html
from paddle_ipu.popart.onnx_ir_import import import_onnx_ir
from paddle_ipu.runtime import target_selection
from paddle_ipu.runtime.fetches import flat
from paddle_ipu.runtime.ipu_backend import IpuBackend
from paddle_ipu.runtime.ipu_program import IpuProgram

if TYPE_CHECKING:
    import paddle

    from paddle_ipu.passes.pass_base import Pass


class IpuCompiledProgram:
    """Compiles a program for the IPU.

    Args:
        program: a PIR program, or a ProgramDesc program (Paddle 2.6, and saved models); the
            default main program where None.
        scope: holds the program's parameters; the global scope where None.
        ipu_strategy: a ``paddle.static.IpuStrategy``; one with default options where None.
    """

    def __init__(
        self,
        program: paddle.static.Program | None = None,
        scope: paddle.static.Scope | None = None,
        ipu_strategy: paddle.static.IpuStrategy | None = None,
    ) -> None:
        import paddle

        self._program = paddle.static.default_main_program() if program is None else program
        if not programs.is_program(self._program):
            kind = type(self._program)
            raise NotSupported(
                f"IpuCompiledProgram takes a paddle.static.Program, got {kind.__module__}."
                f"{kind.__name__}. Pass the program that the layers were built in, for instance "
                "paddle.static.default_main_program()."
            )
        self._scope = paddle.static.global_scope() if scope is None else scope
        if not hasattr(self._scope, "find_var"):
            raise InvalidProgramError(
                f"IpuCompiledProgram: scope must be a paddle.static.Scope, got {kind_of(scope)}. "
                "Leave it out for the global scope."
            )
        self._ipu_strategy = strategy_or_new(ipu_strategy, "IpuCompiledProgram")
        self._backend = IpuBackend(self._ipu_strategy._ipu_strategy)
        self._first_passes: Sequence[Pass] | None = None

    def __repr__(self) -> str:
        return f"<IpuCompiledProgram of {self._ipu_strategy!r}>"

    def _repr_html_(self) -> str:
        return represented_in_html(self._ipu_strategy, "IpuCompiledProgram")

    @classmethod
    def with_first_passes(
        cls,
        program: paddle.static.Program,
        scope: paddle.static.Scope,
        ipu_strategy: paddle.static.IpuStrategy,
        passes: Sequence[Pass],
    ) -> IpuCompiledProgram:
        """A compiler with passes that run before all others, for this package's own frontends.

        Its program may have another batch than the options say, which is not checked.

        Args:
            program: as of the class.
            scope: as of the class.
            ipu_strategy: as of the class.
            passes: the passes.
        """
        compiler = cls(program, scope, ipu_strategy)
        compiler._first_passes = passes
        return compiler

    def compile(self, feed_list: Sequence[Any], fetch_list: Sequence[Any]) -> IpuProgram:
        """Compiles the program and puts the scope's weights on the device.

        The program stays as it is, and so does the scope where compiling fails. Afterwards large
        optimizer state is on the device only, until ``weights_to_host`` or a function of Paddle
        that reads the scope brings it back.

        Args:
            feed_list: names or variables that every run feeds.
            fetch_list: names or variables that runs may fetch, of any kind: parameters and their
                gradients too. Lists in it are taken for what they hold, as ``Executor.run`` does.

        Returns:
            What ``Executor.run`` takes as its program.

        Raises:
            NotSupported: operators that have no support, in one error.
            InvalidProgramError: a program that cannot be compiled as it is.
            FeedError, FetchError: a name that is not in the program.
            OptionError: options that contradict each other, or the feeds' own batch.
            OperandValueError: a constant index that does not exist, or divisor that is zero.
        """
        values = self._ipu_strategy._ipu_strategy.snapshot()
        check_consistent(values)
        progress = progress_of(values)
        progress(0)
        # A backend belongs to one compilation: an earlier program of this object keeps its own.
        if self._backend.is_attached:
            self._backend = IpuBackend(self._ipu_strategy._ipu_strategy)
        try:
            # Graphcore's module refuses to be imported after onnx, which the compilation imports.
            target_selection.select()
            # What is no list is told so by its reader.
            fetches = flat(fetch_list) if isinstance(fetch_list, list | tuple) else fetch_list
            source = Source(self._program, values, feed_list, fetches, self._first_passes)
            with collection_put_off():
                compiled = self._compiled(source, progress)
            try:
                progress(100)
            except BaseException:
                self._backend.reset()
                raise
        except BaseException:
            progress.failed()
            raise
        self._ipu_strategy.need_compile = False
        return compiled

    def _compiled(self, source: Source, progress: Percent) -> IpuProgram:
        from paddle_ipu.compiler.engine_caching import begin_to_load, cache_folder

        cache = cache_folder(source.values)
        early = begin_to_load(source, cache)
        import_onnx_ir()
        from paddle_ipu.compiler.compilation import compiled_for_ipu

        return compiled_for_ipu(source, self._scope, self._backend, progress, cache, early)
