"""The Hydra app from outside: overrides, output, files, ranges and errors."""

import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

from hydra import compose, initialize_config_module
from omegaconf import OmegaConf

from runner import app, settings
from runner.tests.support import STUB_NVTX, paths, run_app, stdout_document

# What a profiler appends to the command line of a Hydra workload.
PROFILER_OVERRIDES = (
    "dataset.root=/data",
    "device=cpu",
    "infer.max_new_tokens=2",
    "pipeline.torch_profiler.enable=false",
    "++pipeline.static_analysis.enable=false",
    "dataset.sampling.num_epochs=1",
    "dataset.sampling.num_samples_per_epoch=2",
    "dataset.sampling.randomize=false",
    "dataset.subset_filelist=list.txt",
    "hydra.job.chdir=false",
    "+inputs.manifest=inputs.yaml",
)


def composed(*overrides):
    settings.register()
    with initialize_config_module("runner.conf", version_base=None):
        return OmegaConf.to_object(compose("config", overrides=list(overrides)))


class InFolder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def run_with_stub_nvtx(self, *overrides):
        stub, events = self.folder / "stub", self.folder / "events"
        stub.mkdir()
        (stub / "nvtx.py").write_text(STUB_NVTX)
        python_path = os.pathsep.join([str(stub), os.environ.get("PYTHONPATH", "")])
        env = {"PYTHONPATH": python_path, "STUB_NVTX_EVENTS": str(events)}
        document = stdout_document(run_app(self.folder / "out", *overrides, env=env))
        return document, paths(events.read_text())


class Configuration(unittest.TestCase):
    def test_overrides_reach_the_settings(self):
        chosen = composed(
            "infer.prompt_tokens=7", "model.config.num_hidden_layers=5", "nvtx.layers=true"
        )
        self.assertEqual(chosen.infer.prompt_tokens, 7)
        self.assertEqual(chosen.model.config["num_hidden_layers"], 5)
        self.assertTrue(chosen.nvtx.layers)
        settings.check(chosen)

    def test_every_model_composes(self):
        models = {file.stem for file in (Path(app.__file__).parent / "conf/model").glob("*.yaml")}
        self.assertLessEqual({"llama_tiny", "llama_1b", "moe_small"}, models)
        for name in models:
            with self.subTest(name):
                chosen = composed(f"model={name}")
                self.assertEqual(chosen.model.name, name)
                self.assertIn("num_hidden_layers", chosen.model.config)

    def test_yaml_and_schema_agree_on_the_defaults(self):
        chosen, plain = composed(), settings.Settings()
        for part in ("infer", "run", "nvtx", "dataset", "outputs", "inputs"):
            self.assertEqual(getattr(chosen, part), getattr(plain, part), part)
        for key in ("experiment", "backend", "device", "seed", "use_flash_attn"):
            self.assertEqual(getattr(chosen, key), getattr(plain, key), key)

    def test_prompts_repeat_with_the_epochs_and_stay_in_the_vocabulary(self):
        chosen = composed(
            "dataset.sampling.num_samples_per_epoch=2", "dataset.sampling.num_epochs=2"
        )
        prompts = list(app.make_prompts(chosen, 11))
        self.assertEqual(settings.repeats(chosen), 4)
        self.assertEqual([each.tolist() for each in prompts[:2]], [p.tolist() for p in prompts[2:]])
        self.assertNotEqual(prompts[0].tolist(), prompts[1].tolist())
        self.assertEqual(prompts[0].shape, (1, 32))
        self.assertTrue(all(each.min() >= 0 and each.max() < 11 for each in prompts))

    def test_randomize_draws_other_prompts(self):
        random = composed("dataset.sampling.randomize=true")
        one, two = (next(app.make_prompts(random, 500)).tolist() for _ in range(2))
        self.assertNotEqual(one, two)
        random.dataset.sampling.seed = 3
        one, two = (next(app.make_prompts(random, 500)).tolist() for _ in range(2))
        self.assertEqual(one, two)


class Output(InFolder):
    def test_metrics_are_printed_and_written(self):
        done = run_app(self.folder, "run.repeats=2", "infer.batch_size=3", "infer.max_new_tokens=4")
        document = stdout_document(done)
        self.assertEqual(json.loads((self.folder / "metrics.json").read_text()), document)
        self.assertEqual(document["metrics_version"], app.METRICS_VERSION)
        self.assertEqual(document["backend"], "numpy")
        self.assertEqual(document["model"]["architecture"], "llama")
        self.assertEqual(document["decode_steps"], 4)
        self.assertEqual(document["batch_size"], 3)
        self.assertEqual(len(document["repeats"]), 2)
        for repeat in document["repeats"]:
            self.assertGreater(repeat["prefill_host_ms"], 0)
            self.assertGreater(repeat["decode_host_ms"], 0)
        middle = sum(repeat["decode_host_ms"] for repeat in document["repeats"]) / 2
        self.assertAlmostEqual(document["median"]["decode_host_ms"], middle)
        self.assertAlmostEqual(document["median"]["decode_host_ms_per_step"], middle / 4)
        self.assertAlmostEqual(document["median"]["decode_tokens_per_s"], 3 * 4 / middle * 1e3)

    def test_a_second_run_gives_the_same_tokens(self):
        for name in ("one", "two"):
            stdout_document(run_app(self.folder / name, "outputs.tokens=tokens.json"))
        one, two = ((self.folder / name / "tokens.json").read_text() for name in ("one", "two"))
        self.assertEqual(one, two)
        self.assertEqual([len(each[0]) for each in json.loads(one)], [17] * 3)

    def test_overrides_of_a_profiler_are_accepted(self):
        done = run_app(self.folder, *PROFILER_OVERRIDES)
        document = stdout_document(done)
        self.assertEqual(document["decode_steps"], 2)
        self.assertEqual(len(document["repeats"]), 2)
        self.assertIn("dataset.root", done.stderr)

    def test_a_profiler_that_is_asked_for_is_not_silently_left_out(self):
        done = run_app(self.folder, "pipeline.torch_profiler.enable=true")
        stdout_document(done)
        self.assertIn("pipeline.torch_profiler.enable=true", done.stderr)


class NvtxRanges(InFolder):
    def test_stages_of_each_repeat(self):
        document, found = self.run_with_stub_nvtx("run.repeats=2", "infer.max_new_tokens=3")
        self.assertEqual(document["nvtx"]["provider"], "nvtx")
        self.assertEqual(found, ["warmup", "prefill", "decode", "prefill", "decode"])

    def test_steps_and_layers(self):
        _, found = self.run_with_stub_nvtx(
            "run.repeats=1", "infer.max_new_tokens=3", "nvtx.steps=true", "nvtx.layers=true"
        )
        self.assertEqual(found.count("decode/step"), 3)
        self.assertEqual(found.count("decode/step/layer.1/attn"), 3)
        self.assertEqual(found.count("prefill/layer.0/mlp"), 1)
        self.assertEqual(found.count("warmup/layer.0"), 4)

    def test_off(self):
        env = {"STUB_NVTX_EVENTS": str(self.folder / "events")}
        document = stdout_document(run_app(self.folder, "nvtx.enable=false", env=env))
        self.assertEqual(document["nvtx"], {"provider": "off", "steps": False, "layers": False})

    def test_without_nvtx_one_line_warns(self):
        (self.folder / "nvtx.py").write_text("raise ImportError('no nvtx here')\n")
        done = run_app(self.folder / "out", env={"PYTHONPATH": str(self.folder)})
        self.assertEqual(stdout_document(done)["nvtx"]["provider"], "off")
        (warning,) = done.stderr.splitlines()
        self.assertIn("pip install nvtx", warning)


class Errors(InFolder):
    def refused(self, *overrides, status=2, env=None):
        done = run_app(self.folder, *overrides, env=env)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertNotIn("Traceback", done.stderr)
        return done.stderr

    def test_unknown_model_lists_those_there_are(self):
        text = self.refused("model=gpt_9", status=1)
        self.assertIn("gpt_9", text)
        self.assertIn("llama_tiny", text)

    def test_ill_typed_and_unknown_keys_are_named(self):
        text = self.refused("infer.max_new_tokens=many", status=1)
        self.assertIn("infer.max_new_tokens", text)
        self.assertIn("infer.max_new", self.refused("infer.max_new=3", status=1))

    def test_values_out_of_range_name_key_and_remedy(self):
        for override in ("infer.prompt_tokens=0", "run.repeats=-1", "outputs.metrics=a/b"):
            with self.subTest(override):
                self.assertIn(override.partition("=")[0], self.refused(override))
        self.assertIn("max_position_embeddings", self.refused("infer.prompt_tokens=5000"))

    def test_no_gpu_and_other_architectures_point_to_torch(self):
        self.assertIn("device=cpu", self.refused("device=cuda:0"))
        self.assertIn("llama_tiny", self.refused("model=moe_tiny"))

    def test_without_torch(self):
        for name in ("torch", "transformers"):
            (self.folder / f"{name}.py").write_text("raise ImportError('not here')\n")
        env = {"PYTHONPATH": str(self.folder)}
        text = self.refused("backend=torch", env=env)
        self.assertIn("pip install torch transformers", text)

    def test_too_large_for_memory(self):
        self.assertIn("infer.batch_size", self.refused("infer.batch_size=100000000000"))

    def test_without_hydra(self):
        (self.folder / "hydra.py").write_text(
            "raise ModuleNotFoundError('No module named hydra', name='hydra')\n"
        )
        text = self.refused(env={"PYTHONPATH": str(self.folder)})
        self.assertIn("hydra-core", text)
        self.assertIn(sys.executable, text)


if __name__ == "__main__":
    unittest.main()
