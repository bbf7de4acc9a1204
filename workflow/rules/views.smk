# Reads:  results/tables of all views
# Writes: results/figures of the categories Communication, I/O, Kernels, Characterisation


VIEW_FIGURES = plain(figures_of("views"))


use rule show_runs as show_views with:
    input:
        tables_of("views"),
    output:
        figures=figures_of("views"),
    log:
        "logs/show_views.log",
