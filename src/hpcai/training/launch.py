"""horovodrun without its check for Gloo: `python -m hpcai.training.launch -np 2 --gloo PROGRAM ...`.

horovodrun imports TensorFlow in a process of its own only to learn whether Horovod was built with Gloo. That takes
longer than everything else it does; the ranks find out by themselves when they join.
"""

from horovod.runner import launch


def main() -> None:
    """Run horovodrun's command line."""
    launch.gloo_built = _assume_gloo
    launch.run_commandline()


def _assume_gloo(verbose: bool = False) -> bool:  # noqa: ARG001  the signature is Horovod's
    return True


if __name__ == "__main__":
    main()
