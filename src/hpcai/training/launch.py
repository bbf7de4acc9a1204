"""horovodrun without its check for Gloo: `python -m hpcai.training.launch -np 2 --gloo PROGRAM ...`.

horovodrun imports TensorFlow in a process of its own only to learn whether Horovod was built with Gloo. That takes
longer than everything else it does; the ranks find out by themselves when they join.
"""


def main() -> None:
    """Run horovodrun's command line."""
    # Imported only here: the process that Horovod spawns for each rank imports this module again.
    from horovod.runner import launch

    launch.gloo_built = _assume_gloo
    launch.run_commandline()


def _assume_gloo(verbose: bool = False) -> bool:  # noqa: ARG001  the signature is Horovod's
    return True


if __name__ == "__main__":
    main()
