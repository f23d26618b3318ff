//! Counters and histograms of the feature `metrics`.
