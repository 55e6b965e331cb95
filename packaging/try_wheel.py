"""Tries a wheel where there is no checkout: installs it next to this Python's torch and trains, tests and asks a model.

    python packaging/try_wheel.py WHEEL
"""
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

TRIPLES = "".join(f"p{i}\t{relation}\tp{(i + step) % 20}\n" for i in range(20)
                  for relation, step in (("next", 1), ("after_next", 2)))
FLAGS = ("--data_path mine --dataset mine --format raw_udd_hrt --data_files train.txt train.txt train.txt --model_name "
         "DistMult --hidden_dim 16 --gamma 12 --lr 0.1 --batch_size 8 --neg_sample_size 8 --max_step 50 --test "
         "--seed 1")
ASK = ("import dglke_frugal; "
       "print(*(a.name for a in dglke_frugal.load('ckpts/DistMult_mine_0').tails('p0', 'next', k=3)))")


def links(wheel: Path, folder: Path) -> list:
    """Shared libraries that the wheel's extension asks for."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if "/_native" in name and name.endswith(".so"))
        archive.extract(name, folder)
    lines = subprocess.run(["ldd", str(folder / name)], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split()[0] for line in lines]


def main(wheel: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        foreign = [name for name in links(wheel, folder) if "cuda" in name or "torch" in name or "c10" in name]
        if foreign:
            sys.exit(f"{wheel.name} links {', '.join(foreign)}; it must link neither torch nor CUDA")
        site, away = folder / "site", folder / "away"
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site), str(wheel)],
                       check=True)
        (away / "mine").mkdir(parents=True)
        (away / "mine" / "train.txt").write_text(TRIPLES)
        environment = {**os.environ, "PYTHONPATH": str(site)}

        def run(*command: str) -> str:
            return subprocess.run([sys.executable, *command], cwd=away, env=environment, check=True, text=True,
                                  capture_output=True).stdout

        where = run("-c", "import dglke_frugal; print(dglke_frugal.__file__)")
        if not where.startswith(str(site)):
            sys.exit(f"the package came from {where.strip()}, not from the wheel")
        if "Test average MRR" not in run("-m", "dglke_frugal", "train", *FLAGS.split()):
            sys.exit("a run of the wheel printed no result of its test")
        print("trained, tested and asked with the wheel alone:", run("-c", ASK).strip())


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
