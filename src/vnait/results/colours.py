"""The colours of all figures: contrast 3 : 1 or more on the white and on the dark page."""

COLOURS = ("#2383C4", "#D55E00", "#1B8A5A", "#B5508A", "#7A7A7A", "#7B61D1", "#A8760B", "#5A7D2A")
