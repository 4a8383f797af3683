"""Records of runs, and what is read off them: means, intervals, advice, reports, figures, explanations."""
