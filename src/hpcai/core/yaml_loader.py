"""The loader of YAML that all of ours are derived from."""

from typing import Any

import yaml

SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's reads the table of columns nine times as fast; PyYAML may be built without it."""
