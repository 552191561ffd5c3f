"""Durations as `kubectl get` shows them: about two significant units."""


def human(seconds: float) -> str:
    """Format as `45s`, `5m10s`, `3h20m`, `27h`, `2d4h`, `12d`, `2y30d`, `9y`; a negative duration is
    `<invalid>`, or `0s` down to -2 seconds."""
    whole = int(seconds)
    if seconds < 0:
        return "0s" if seconds > -2 else "<invalid>"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 2920:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
