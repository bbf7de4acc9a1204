"""Read the raw files of one kind of profile into views."""

from typing import TYPE_CHECKING

from hpcai.core.logs import log_to
from hpcai.profiles.reading import read_profiles, write_views

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
views = read_profiles(snakemake.params.profile, snakemake.input.captures, snakemake.input.get("also", ()))
write_views(views, list(snakemake.output.items()))
