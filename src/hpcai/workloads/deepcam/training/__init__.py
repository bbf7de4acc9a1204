"""DeepCAM: DeepLabv3+ with a modified Xception finds the pixels of cyclones and atmospheric rivers."""
