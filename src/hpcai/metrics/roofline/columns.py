"""Columns of the tables of the rooflines: the contract between those who place points and those who draw them."""

from hpcai.catalogue.tables import columns_of

INTRA_NODE, NETWORK, MEMORY = "intra_node", "network", "memory"
"""Scopes: ranks of one node exchange over the links within it, nodes over the network, a rank with its memory."""
PEAK, GEMM, CONVOLUTION, LINK = "peak", "gemm", "convolution", "link"
"""Kinds of ceilings; the bandwidth of a memory has the kind of its scope."""
ROOF, CEILING, REFUSED, NOT_MEASURED = "roof", "ceiling", "refused", "not measured"
"""Status of a ceiling: what points are judged by, what is drawn for orientation, what is above its declared peak."""
DRAWN, NOT_PLACED = "drawn", "not placed"
"""Status of a point that is not a refused one."""

POINT_COLUMNS = columns_of("roofline_points")
"""One row for each result and scope (table `roofline_points`).

Rates and roofs are those of all ranks together; `traffic_bytes`, `intensity_flop_per_byte` and `link_bytes_per_s` are
those of one participant: a rank, over a network a node. `message_bytes` is what one step reduces: counted in the
timeline or modelled from the parameters; `part_bytes` is what a participant sends besides, because ranks share samples,
and part of its traffic; in the scope memory it is empty, and `message_method` says whether the traffic
was measured or modelled. `bound` is communication (in the scope memory: memory) or computation. `reason` says why a
point is not drawn, `note` what its numbers stand on.
"""
CEILING_COLUMNS = columns_of("roofline_ceilings")
"""One row for each ceiling and number of ranks that it holds for (table `roofline_ceilings`).

`value` of a peak, GEMM or convolution is that of all ranks together [FLOP/s]; of a link or memory, that of one
participant [B/s].
"""
MOVE_COLUMNS = columns_of("roofline_moves")
"""One row for each arrow (table `roofline_moves`): modelled or measured, the change in words, from where to where."""
