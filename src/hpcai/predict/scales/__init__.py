"""Steps at other numbers of ranks, batches and messages, from what was measured apart; replays of timelines."""
