"""The equations of all variants as a plain Python loop: what the arrays are compared with."""


def loop_time_s(
    variant, order, block, cpu, gpu, *, nodes=1, link=1.0, net=1.0, tau=0.0, chunks=1, peaks=None, rates=None
):
    """Return the time of one scenario; ``rates`` are those of solve and panel, ``net`` is in bit/s."""
    total_s = 0.0
    first = 0 if variant == "calibrated" else 1
    for step in range(first, order // block + 1):
        m = order - step * block
        work, panel = 2 * block * m**2, block**2 * (m + block) - block**3 / 3
        if variant == "cpu":
            step_s = work / cpu
            if rates:
                step_s += block**2 * m / rates[0] + panel / rates[1]
        elif variant == "device":
            step_s = work / gpu + panel / cpu + 16 * (m + block) * block / link
        elif variant == "calibrated":
            step_s = work / (gpu + cpu)
        elif variant == "pipe":
            share = peaks[1] / (peaks[0] + peaks[1])
            step_s = max((1 - share) * work / cpu, 8 * m**2 * share / (chunks * link) + share * work / gpu)
        else:
            share = 0.0
            if m:
                share = (1 - cpu * 8 * m * block / (link * work)) / (
                    1 + cpu / gpu + cpu * 8 * (m * block + m**2) / (link * work)
                )
                share = min(max(share, 0.0), 1.0)
            moved = 8 * (m * block * (1 + share) + m**2 * share)
            step_s = max((1 - share) * work / cpu, share * work / gpu + moved / link)
        total_s += step_s / nodes
        if nodes > 1:
            total_s += tau * 64 * block * m / (nodes * net)
    return total_s
