"""Learning rates of the recipe as a function of the step (tensorpack, examples/FasterRCNN/train.py)."""

from hpcai.workloads.extreme_weather.settings import ExtremeWeatherRecipe


def peak_rate(recipe: ExtremeWeatherRecipe, global_batch: int) -> float:
    """Return the learning rate after the warm-up, scaled linearly with the global batch."""
    return recipe.base_learning_rate * global_batch / recipe.base_batch


def learning_rate(recipe: ExtremeWeatherRecipe, global_batch: int, step: int, steps: int) -> float:
    """Return the learning rate of a step.

    Linear warm-up from a fraction of the peak. At each decay point (a fraction of the whole training) the rate is
    multiplied by the decay factor.

    Parameters
    ----------
    recipe
        The schedule.
    global_batch
        Samples per step.
    step
        Number of the step, from 0.
    steps
        Steps of the whole training.
    """
    peak = peak_rate(recipe, global_batch)
    if step < recipe.warmup_steps:
        start = recipe.warmup_start_ratio
        return peak * (start + (1 - start) * step / recipe.warmup_steps)
    passed = sum(step >= point * steps for point in recipe.decay_points)
    return float(peak * recipe.decay_factor**passed)
