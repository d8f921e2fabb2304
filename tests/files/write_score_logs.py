"""Write the logs in `score_logs` with the tools themselves, each in an environment of its own.

    uv venv inspect; uv pip install --python inspect inspect-ai
    inspect/bin/python tests/files/write_score_logs.py inspect
    uv venv harness; uv pip install --python harness lm-eval
    harness/bin/python tests/files/write_score_logs.py harness
    uv venv lerobot; uv pip install --python lerobot "lerobot[pusht]"
    lerobot/bin/python tests/files/write_score_logs.py lerobot
    python tests/files/write_score_logs.py stable_baselines3

Nothing is downloaded: Inspect's mockllm, the dummy model of lm-evaluation-harness on a task of six lines, a policy of
lerobot with random weights on PushT, CartPole.
"""

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LOGS = Path(__file__).parent / "score_logs"


def inspect(folder):
    """Two models on six questions, two epochs each."""
    from inspect_ai import Task
    from inspect_ai import eval as run
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import match
    from inspect_ai.solver import generate

    samples = [Sample(id=f"q{i}", input=f"what is {i}+{i}?", target=str(2 * i)) for i in range(6)]
    for name, wrong, form in (("old", {1, 2, 4, 7, 9}, "eval"), ("new", {2, 9}, "eval"), ("new", {2, 9}, "json")):
        asked = itertools.count()

        def answer(messages, tools, choice, config, wrong=wrong, asked=asked):
            number = int(messages[-1].text.split()[2].split("+")[0])
            found = ModelOutput.from_content("mockllm", str(2 * number + (next(asked) in wrong)))
            found.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # or a tokenizer is downloaded
            return found

        model = get_model("mockllm/model", custom_outputs=answer, memoize=False)
        task = Task(
            dataset=MemoryDataset(samples, name="sums"), solver=generate(), scorer=match(), epochs=2, name="sums"
        )
        where = folder / f"{name}.{form}"
        run(task, model=model, log_dir=str(where), log_format=form, display="none", max_samples=1, max_connections=1)
        shutil.copy(next(where.glob(f"*.{form}")), LOGS / f"inspect_{name}.{form}")


def harness(folder):
    """The dummy model, with two seeds, on six questions."""
    lines = [
        {"question": f"{i}+{i}", "choices": [str(2 * i + i % 2), str(2 * i + 1 - i % 2)], "answer": i % 2}
        for i in range(6)
    ]
    (folder / "sums.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (folder / "sums.yaml").write_text(
        "task: sums\ndataset_path: json\ndataset_kwargs:\n  data_files:\n    test: sums.jsonl\ntest_split: test\n"
        'output_type: multiple_choice\ndoc_to_text: "{{question}} ="\ndoc_to_choice: "{{choices}}"\n'
        "doc_to_target: answer\nmetric_list:\n  - metric: acc\n"
    )
    for seed in ("1", "2"):
        options = ["--model", "dummy", "--tasks", "sums", "--include_path", ".", "--log_samples", "--output_path", seed]
        command = [str(Path(sys.executable).parent / "lm_eval"), "run", *options, "--seed", ",".join([seed] * 4)]
        subprocess.run(command, cwd=folder, check=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
        shutil.copy(next((folder / seed).rglob("samples_*.jsonl")), LOGS)


def lerobot(folder):
    """A policy with random weights, four episodes."""
    options = ["--policy.type=act", "--policy.push_to_hub=false", "--policy.device=cpu", "--env.type=pusht"]
    options += ["--policy.pretrained_backbone_weights=null", "--eval.n_episodes=4", "--eval.batch_size=2"]
    command = [
        str(Path(sys.executable).parent / "lerobot-eval"),
        *options,
        "--env.episode_length=20",
        "--output_dir=out",
    ]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "SDL_VIDEODRIVER": "dummy"}
    subprocess.run(command, cwd=folder, check=True, env=environment)
    shutil.copy(folder / "out" / "eval_info.json", LOGS / "lerobot.json")


def stable_baselines3(folder):
    """Training with a monitor, and two evaluations of eight episodes."""
    import gymnasium as gym
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import EvalCallback
    from stable_baselines3.common.monitor import Monitor

    env = Monitor(gym.make("CartPole-v1"), str(folder / "log"))
    evaluated = EvalCallback(
        Monitor(gym.make("CartPole-v1")), log_path=str(folder), eval_freq=256, n_eval_episodes=8, verbose=0
    )
    PPO("MlpPolicy", env, n_steps=128, seed=0, device="cpu").learn(512, callback=evaluated)
    shutil.copy(folder / "evaluations.npz", LOGS)
    shutil.copy(folder / "log.monitor.csv", LOGS / "monitor.csv")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        tools = {tool.__name__: tool for tool in (inspect, harness, lerobot, stable_baselines3)}
        tools[sys.argv[1]](Path(made))
