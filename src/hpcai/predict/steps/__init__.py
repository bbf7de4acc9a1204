"""Times of training steps from their fused blocks."""
