"""One training run: tables, loop, checkpoints, validations, files."""

from __future__ import annotations

import contextlib
import functools
import shlex
import shutil
import sys
import time
from functools import cached_property
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, Optional, Sequence

from ... import available_memory, hardware
from ...data import KnowledgeGraph, Triples
from ...data.fingerprint import Fingerprint
from ...data.name_maps import keep_name_maps
from ...divergence import Diverged, check_loss
from ...errors import DeviceLost, InputError, first_line, shortage
from ...evaluation import Metrics
from ...files import replace_together
from ...options import TrainConfig
from ...saved_tables import SavedTables
from ..batches.edge_partition import negative_owners
from ..batches.sampler import Sampler, SamplerConfig
from ..batches.subsampling import triple_weights
from ..checkpoint.checkpoint import CheckpointFolder
from ..checkpoint.final_state import STATES, last_state, load_state, reads_half_precision, save_final_state
from ..checkpoint.run_folder import (CHECKPOINTS, check_data, fingerprint, identity, validation_identity, write_config,
                                     write_result)
from ..log.messages import chance_line
from ..log.report import Report
from ..log.tracker import MakeTracker, make_tracker
from ..step.make_step import make_step
from ..step.step_config import step_config
from ..tables.tables import Tables, hot_entities
from .interrupt import Interrupt
from .learning_rate import LearningRate
from .loop import TrainingLoop
from .ranker import Ranker


def _says_what_is_left(method):
    """Wrap a part of a run: a training that has diverged also says when, and where its last good tables are."""

    @functools.wraps(method)
    def part(run):
        try:
            return method(run)
        except Diverged as error:
            when = f"{error.fact} after step {run.steps_done}"
            raise Diverged(when, f"{error.remedy}; {run.what_is_left()}") from None

    return part


class TrainingRun:
    """One training run in its folder; a context manager that ends its threads and closes its files.

    Attributes:
        steps_done: trained steps, over all parts of a run that was resumed.
        seconds: by what they were spent on; "training" is over all parts too.
        summary: what is written as result.json in the end.
    """

    rank = 0  # the number in front of the lines of this process

    def __init__(self, config: TrainConfig, graph: KnowledgeGraph, folder: Path, device=None,
                 trackers: Sequence[MakeTracker] = ()):
        """device: a store.device.Device that steps compute on; without one, csrc/step does."""
        self.config, self.graph, self.folder, self.device = config, graph, folder, device
        self.steps_done = 0
        self._checked_step: Optional[int] = None  # after which all numbers were finite
        self.best: Optional[Dict[str, float]] = None  # step and metrics of the best validation
        self.best_identity: Optional[Dict[str, Any]] = None  # of that validation
        self.validations_since_best = 0
        run = config.run
        self.learning_rate = LearningRate(config.loss.lr, run.lr_factor, run.lr_patience, run.lr_decay_at)
        self.seconds: Dict[str, float] = {"training": 0.0}
        self.summary: Dict[str, Any] = {"stopped_early": False, "validation": None, "test": None}
        self.tables = self._make_tables()
        self.sampler = self._make_sampler()
        self._log_batch_size()
        self.custom_model = self._make_custom_model()
        self.step = self._make_step()
        self.checkpoints = CheckpointFolder(folder / CHECKPOINTS)
        self.ranker = Ranker(config, graph, device, self.custom_model)
        self.tracker = make_tracker(folder, config.run.trackers, trackers)

    def _make_custom_model(self):
        if not self.config.model.is_custom:
            return None
        from .custom_model import make_custom_model  # here, because it takes torch's import time

        return make_custom_model(self.config)

    def _make_tables(self) -> Tables:
        config, graph = self.config.limited_to(len(self.graph.train)), self.graph
        return Tables.create(config, graph.n_entities, config.model.relation_rows(graph.n_relations), config.run.seed,
                             hot_entities(graph) if config.uses_engine else None, self.device)

    def _make_sampler(self, part=None, ranks: int = 1) -> Sampler:
        config, graph = self.config, self.graph
        return Sampler(*graph.train, graph.n_entities, config.model.relation_rows(graph.n_relations),
                       SamplerConfig(config.batch.batch_size, config.batch.negatives, config.run.seed, self.rank,
                                     ranks, graph.n_relations if config.model.reciprocal else 0,
                                     config.batch.neg_chunk_size or 0, config.batch.exclude_positive,
                                     config.store.sampler_threads,
                                     owners=self._negative_owners()),
                       weight=triple_weights(config, graph), part=part)

    def _negative_owners(self):
        return negative_owners(self.config.device, self.graph.n_entities, self.folder)

    def _make_step(self):
        now = replace(step_config(self.config), learning_rate=self.learning_rate.now)
        return make_step(now, device=self.device, matmul=self.config.device.matmul,
                         custom_model=self.custom_model, stream=(self.config.run.seed, self.rank))

    def _make_interrupt(self) -> Interrupt:
        return Interrupt(agree=self._stop_signal)

    def _stop_signal(self, own: Optional[int]) -> Optional[int]:
        """After a step: the signal that ends the run. own: that this process has had."""
        return own

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tracker.close()
        self.tables.close()

    def _log_batch_size(self):
        batch, used = self.config.batch, self.sampler.batch_size
        wanted, negatives = batch.batch_size, batch.neg_sample_size
        if used > wanted:
            what = "negative chunk size" if batch.neg_chunk_size else "negative sample size"
            print(f"batch size ({wanted}) is incompatible to the {what} ({batch.neg_chunk_size or negatives}). "
                  f"Change the batch size to {used}")
        elif used < wanted:
            print(f"batch size ({wanted}) is larger than the training set ({len(self.graph.train)} triples). "
                  f"Change the batch size to {used}")

    # ---- checkpoints

    def restore(self) -> None:
        """Continue from the last checkpoint of the folder; from the start if there is none. Raises InputError."""
        checkpoint = last_state(self.folder)
        if checkpoint is None:
            print(f"{self.folder} has no checkpoint yet; starting at step 0")
            return
        check_data(self.folder, checkpoint.config, self._fingerprint)
        if checkpoint.step > self.config.run.max_step:
            raise InputError(f"{self.folder} has been trained for {checkpoint.step} steps, more than --max_step "
                             f"{self.config.run.max_step}; give a larger one")
        load_state(checkpoint, self.tables, self._own_arrays(), self.folder, self._stem)
        if self.config.model.row_dtype != "fp16" and reads_half_precision(checkpoint, self.tables, self.folder,
                                                                          self._stem):
            print("its entities were saved by --save_dtype fp16, so that it goes on from rounded rows; checkpoints "
                  "(--checkpoint_interval) keep all bits")
        self.steps_done, state = checkpoint.step, checkpoint.state
        self.best, self.validations_since_best = state["best"], state["validations_since_best"]
        self.summary["validation"] = state.get("validation")
        self.best_identity = state.get("best_identity")
        self._forget_a_best_of_another_kind()
        if self.learning_rate.restore(state.get("plateau"), self.steps_done):
            self.step.set_learning_rate(self.learning_rate.now)
        self.seconds["training"] = state["training_seconds"]
        stopped_before = state["stopped_early_before"]
        self.summary["stopped_early"] = stopped_before is not None and self.config.run.max_step <= stopped_before
        if checkpoint.path.parent.name == CHECKPOINTS and self.best and self.best["step"] == checkpoint.step:
            self.checkpoints.mark_best(checkpoint.step)  # which a kill may have left out
        print(f"resuming after step {checkpoint.step} of {self.config.run.max_step}")
        self._log_other_rounding(state)

    def _log_other_rounding(self, state: Dict[str, Any]) -> None:
        """Say why steps of a resumed run round otherwise than those before, if they do. state: of the checkpoint."""
        if self.custom_model is not None:
            from .custom_model import log_if_other_threads

            log_if_other_threads(state["torch_threads"])

    def _forget_a_best_of_another_kind(self) -> None:
        """Forget the best validation if its ranks cannot be compared with those of the coming ones."""
        if self.best and self.config.evaluation.valid and self.best_identity != self._validation_identity:
            print(f"the best validation, that of step {self.best['step']}, ranked other triples or candidates than "
                  "those to come, which cannot be compared with it: the best one is looked for anew")
            self.best, self.best_identity, self.validations_since_best = None, None, 0

    def keep_names(self) -> None:
        """Write the id maps of a raw_udd graph, without which nobody could say later what rows that are saved mean."""
        if not self.config.run.no_save_emb:
            self.graph = keep_name_maps(self.graph, self.folder, Path(self.config.graph.data_path))

    def checkpoint(self) -> None:
        """Write the state after the finished steps. Raises Diverged, with the last checkpoint as it was."""
        self._check_tables()
        arrays = {**self.tables.arrays(), **self._own_arrays()}
        self.checkpoints.save(self.steps_done, arrays, self._identity, self._state())

    def _own_arrays(self) -> Dict[str, Any]:
        """The parameters of a custom model, without its rows."""
        return self.step.state_arrays()

    def _state(self) -> Dict[str, Any]:
        return {"best": self.best, "best_identity": self.best_identity, "validation": self.summary["validation"],
                "validations_since_best": self.validations_since_best,
                **({"plateau": self.learning_rate.state()} if self.learning_rate.patience else {}),
                "stopped_early_before": self.config.run.max_step if self.summary["stopped_early"] else None,
                "torch_threads": self._torch_threads, "training_seconds": self.seconds["training"]}

    @property
    def _torch_threads(self) -> Optional[int]:
        """Threads of the CPU by which torch computes steps; None if others compute them."""
        if self.custom_model is None or self.device is not None:
            return None
        import torch

        return torch.get_num_threads()

    @property
    def step_positives(self) -> int:
        """Positive triples, or queries, of a step of all ranks together."""
        return self.sampler.batch_size * self.config.device.ranks

    @property
    def epoch_positives(self) -> float:
        """Those of an epoch."""
        return len(self.graph.train)

    def epochs(self, steps: int) -> float:
        """How often each training triple is seen in so many steps."""
        return steps * self.step_positives / self.epoch_positives

    @property
    def _stem(self) -> str:
        return f"{self.config.graph.dataset}_{self.config.model.model_name}"

    @cached_property
    def _identity(self) -> Dict[str, Any]:
        return identity(self.config, self._fingerprint)

    @cached_property
    def _validation_identity(self) -> Dict[str, Any]:
        return validation_identity(self.config, self.graph)

    @cached_property
    def _fingerprint(self) -> Fingerprint:
        return fingerprint(self.config, self.graph)

    @property
    def _keeps_checkpoints(self) -> bool:
        return bool(self.config.run.checkpoint_interval or self.config.run.early_stop_patience)

    # ---- training

    def start(self) -> None:
        """What may still refuse the run before its first step."""

    @_says_what_is_left
    def train(self) -> None:
        """Run the steps that are left, with validations and checkpoints on the way. Raises Diverged."""
        run = self.config.run
        self.tracker.start(self.config.to_flags(), self.steps_done)
        last_step = self.steps_done if self.summary["stopped_early"] else run.max_step
        if self.custom_model is not None and self.steps_done < last_step:
            # The model's score may fail where there are no gradients, which must not be found after all the steps.
            with contextlib.suppress(Diverged):  # the first loss reports it
                self._check_tables()
        loop = TrainingLoop(self.tables, self.sampler, self.step, self.steps_done, last_step,
                            self.config.store.lookahead,
                            self.config.model.normalize_entities and not self.config.batch.against_all)
        report = Report(loop, self.steps_done, run.max_step, run.log_interval, self.tracker, self.rank,
                        step_config(self.config).loss.joint, self.config.positives)
        earlier, began = self.seconds["training"], time.perf_counter()
        with self._make_interrupt() as interrupt:
            try:
                for losses in loop:
                    self.steps_done += 1
                    self.seconds["training"] = earlier + time.perf_counter() - began
                    if losses is not None:
                        check_loss(losses.total)
                    if report.step(self.steps_done):
                        check_loss(report.losses["loss"])
                    lowers, validates = self.learning_rate.trained(self.steps_done), self._validation_is_due()
                    keeps = run.checkpoint_interval and self.steps_done % run.checkpoint_interval == 0
                    if lowers or validates or keeps:
                        with report.paused():
                            if lowers:
                                self._lower_rate(f"{self.steps_done} steps are done")
                            if validates:
                                self._validate()
                            if keeps:
                                self.checkpoint()
                    if interrupt or self.summary["stopped_early"]:
                        break
            except RuntimeError as error:
                if self.device is None or shortage(error):
                    raise
                self._give_up(error)
            finally:
                report.close(self.steps_done)
            check_loss(report.losses.get("loss", 0.0))
            self.summary["training"] = report.totals()
            if self._keeps_checkpoints or interrupt:
                self.checkpoint()
            if interrupt and not self.summary["stopped_early"]:
                self._stop(interrupt)

    def _check_tables(self) -> None:
        """Raise Diverged if steps have left what is not finite. Once after a step, since it reads all tables."""
        if self._checked_step != self.steps_done:
            self.ranker.check(self.tables, self.step.trained_arrays())
            self._checked_step = self.steps_done

    def _give_up(self, error: RuntimeError) -> None:
        """The device has failed: the tables hold parts of several steps, so a run goes on from a checkpoint."""
        last = self.checkpoints.last()
        remedy = "there is no checkpoint to go on from; --checkpoint_interval writes some" if last is None else (
            f"go on from the checkpoint of step {last.step} with: dglke_train --resume {shlex.quote(str(self.folder))}")
        sys.stderr.write(f"training stopped in step {self.steps_done + 1}: {first_line(error)}; {remedy}\n")
        raise DeviceLost(1) from error

    def what_is_left(self) -> str:
        """Which tables of the run are on disk, as the end of a sentence."""
        left = None
        with contextlib.suppress(InputError):  # of a damaged one
            left = last_state(self.folder)
        if left is None:
            return "no tables are saved, --checkpoint_interval saves some on the way"
        in_checkpoint = left.path.parent.name == CHECKPOINTS
        return f"the tables of step {left.step} are kept in {left.path if in_checkpoint else self.folder}"

    def _stop(self, interrupt) -> None:
        again = f"dglke_train --resume {shlex.quote(str(self.folder))}"
        sys.stderr.write(f"stopped after step {self.steps_done}; go on with: {again}\n")
        raise SystemExit(interrupt.exit_code)

    def _validation_is_due(self) -> bool:
        evaluation = self.config.evaluation
        return evaluation.valid and self.steps_done % evaluation.eval_interval == 0

    def _validate(self) -> None:
        """Rank the validation triples, and find out whether the run has stopped improving. Raises Diverged."""
        began = time.perf_counter()
        self._check_tables()
        metrics = self.ranker.rank("Valid", self.graph.valid, self.tables)
        print(f"[proc 0]validation take {time.perf_counter() - began:.3f} seconds:", flush=True)
        self._track("valid", metrics)
        run = self.config.run
        better = self.best is None or metrics.mrr > self.best["MRR"] * (1 + run.early_stop_delta)
        lowered = self.learning_rate.validated(better)
        found = self.summary["validation"] = {"step": self.steps_done, **metrics.named()}
        if better:
            self.best, self.validations_since_best = found, 0
            self.best_identity = self._validation_identity
            if self._keeps_checkpoints:
                self.checkpoint()
                self.checkpoints.mark_best(self.steps_done)
        else:
            self.validations_since_best += 1
        if run.early_stop_patience and self.validations_since_best >= run.early_stop_patience:
            best = self.best["MRR"]
            print(f"stopping early: {run.early_stop_patience} validations without a better MRR than {best:.6f}")
            self.summary["stopped_early"] = True
        if self._wants_stop() and not self.summary["stopped_early"]:
            print("stopping early: a callback has asked for it")
            self.summary["stopped_early"] = True
        if lowered and not self.summary["stopped_early"]:
            self._lower_rate(f"{run.lr_patience} validations without a better MRR than {self.best['MRR']:.6f}")
        if run.lr_patience or run.lr_decay_at:
            self.tracker.log({"train/lr": self.learning_rate.now}, self.steps_done)

    def _wants_stop(self) -> bool:
        """Whether a tracker ends the run after this validation."""
        return self.tracker.wants_stop

    def _lower_rate(self, why: str) -> None:
        """Give the lowered learning rate to the coming steps."""
        print(f"{why}: the learning rate is now {self.learning_rate.now:.6g}", flush=True)
        self.tables.drain()  # no step of the earlier rate is on its way
        self.step.set_learning_rate(self.learning_rate.now)

    def _track(self, split: str, metrics: Metrics) -> None:
        self.tracker.log({f"{split}/{name}": value for name, value in metrics.named().items()}, self.steps_done)

    # ---- results

    @_says_what_is_left
    def finish(self) -> None:
        """Save the tables, rank the test triples if asked to, and write result.json. Raises InputError, and Diverged
        before anything is saved."""
        self._check_tables()
        step = self._take_best() if self.config.run.early_stop_patience else self.steps_done
        if self.best is not None and not self.config.evaluation.test:
            self._compare_with_chance("validation", self.best["MRR"], self.graph.valid)
        # From here on the training is done, whatever happens to the test.
        if self.config.run.no_save_emb:
            self._write_result(self.folder)
        else:
            self.save(step)
        if self.config.evaluation.test:
            began = time.perf_counter()
            metrics = self.ranker.rank("Test", self.graph.test, self.tables)
            self.seconds["testing"] = time.perf_counter() - began
            print(f"testing takes {self.seconds['testing']:.3f} seconds", flush=True)
            self._track("test", metrics)
            self.summary["test"] = metrics.named()
            self._compare_with_chance("test", metrics.mrr, self.graph.test)
            self._write_result(self.folder)

    def _compare_with_chance(self, what: str, mrr: float, triples: Triples) -> None:
        """Print a line if the model ranks hardly better than at random. what: whose MRR it is."""
        found = self.ranker.chance(mrr, triples)
        if found is not None:
            self.summary["chance"] = {"of": what, "MRR": found.mrr, "near": found.near}
        if found is not None and found.near:
            print(chance_line(self.config, what, mrr, found.mrr), flush=True)

    def _write_result(self, folder: Path) -> None:
        run = self.config.run
        write_result(folder, {"steps": self.steps_done, "max_step": run.max_step, "seed": run.seed, **self.summary,
                                   "best_validation": self.best, "seconds": self.seconds,
                                   "hardware": hardware.describe([gpu for gpu in self.config.device.gpu if gpu >= 0]),
                                   "peak_host_bytes": available_memory.peak_host_bytes(),
                                   "peak_device_bytes": available_memory.peak_device_bytes(self.config.device.gpu[0])})

    def _take_best(self) -> int:
        """Returns the step whose tables are then in memory."""
        best = self.checkpoints.best()
        if best is None or best.step == self.steps_done:
            return self.steps_done
        print(f"taking the tables of step {best.step}, which had the best validation MRR")
        self.tables.drain()
        self.tables.close()  # or the device's rows would overwrite the best ones on the host
        best.load_into({**self.tables.arrays(), **self._own_arrays()})
        return best.step

    def save(self, step: int) -> None:
        """Write the tables, which are of this step, and config.json as DGL-KE does, what the run needs to be trained
        on, and result.json: all together, so that what an earlier part of the run has saved stays until then."""
        print(f"Save model to {self.folder}")
        with replace_together(self.folder) as new_folder:
            checksums = self.tables.save(new_folder, self._stem, self.config.run.save_dtype)
            if self.custom_model is not None:
                from .custom_model import save_custom_model

                checksums.update(save_custom_model(self.custom_model, new_folder, self._stem))
            write_config(new_folder, self.config, self.graph, self._fingerprint, self.folder,
                         SavedTables(step, checksums))
            if not self._keeps_checkpoints:
                save_final_state(new_folder, self.steps_done, self.tables, self._own_arrays(), self._identity,
                                 self._state())
            self._write_result(new_folder)
        # Of an earlier part: states if it kept no checkpoints, or one that was written when it was interrupted.
        shutil.rmtree(self.folder / (STATES if self._keeps_checkpoints else CHECKPOINTS), ignore_errors=True)
