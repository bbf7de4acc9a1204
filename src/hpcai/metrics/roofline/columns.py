"""Columns of the roofline tables, shared by the modules that place and draw points."""

from hpcai.catalogue.tables import columns_of

INTRA_NODE, NETWORK, MEMORY = "intra_node", "network", "memory"
"""Scopes: ranks of one node communicate over its internal links, nodes over the network, a rank with its memory."""
PEAK, GEMM, CONVOLUTION, LINK = "peak", "gemm", "convolution", "link"
"""Kinds of ceilings; the bandwidth of a memory has the kind of its scope."""
ROOF, CEILING, REFUSED, NOT_MEASURED = "roof", "ceiling", "refused", "not measured"
"""Status of a ceiling: limit for points, drawn for orientation, above its declared peak, or not measured."""
DRAWN, NOT_PLACED = "drawn", "not placed"
"""Status of a point that is not refused."""

POINT_COLUMNS = columns_of("roofline_points")
"""One row per result and scope (table `roofline_points`).

Rates and roofs are totals over all ranks; `traffic_bytes`, `intensity_flop_per_byte` and `link_bytes_per_s` belong to
one participant: a rank or, over a network, a node. `message_bytes` is reduced in one step: counted in the timeline or
modelled from the parameters. `part_bytes` is what a participant also sends because ranks share samples; its traffic
includes that. In the scope memory `message_bytes` is empty, and `message_method` tells whether the traffic was
measured or modelled. `bound` is communication (in the scope memory: memory) or computation. `reason` explains why a
point is not drawn; `note` gives the basis of its numbers.
"""
CEILING_COLUMNS = columns_of("roofline_ceilings")
"""One row per ceiling and number of ranks (table `roofline_ceilings`).

`value` of a peak, GEMM or convolution is the total of all ranks [FLOP/s]; of a link or memory, that of one
participant [B/s].
"""
MOVE_COLUMNS = columns_of("roofline_moves")
"""One row per arrow (table `roofline_moves`): modelled or measured, the change in words, start and end."""
