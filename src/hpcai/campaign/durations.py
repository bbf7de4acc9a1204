"""Long durations as people say them."""


def say_duration(seconds: float | None) -> str:
    """Return a duration [s] in days, hours, minutes and seconds: the two largest; "not known" for None."""
    if seconds is None:
        return "not known"
    whole = round(seconds)
    parts = ((whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s"))
    first = next((number for number, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count or unit == parts[first][1])
