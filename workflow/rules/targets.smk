# The stages by name: each target builds one stage and its prerequisites.


rule data:
    input:
        MANIFESTS,


rule pack:
    input:
        PACKS,


rule measure:
    input:
        RECORDS,
        WEAK_GROUPS,


rule characterise:
    input:
        CHARACTERISATIONS,


rule acceptance:
    input:
        "results/acceptance/acceptance.json",
        "results/acceptance/acceptance.csv",
        "results/acceptance.html",


rule views:
    input:
        VIEW_FIGURES,
        "results/characterisation.json",


rule scores:
    input:
        SCORES,


rule analyse:
    input:
        ANALYSES,


rule predict:
    input:
        # Asked for by name: tables that are there would hide that one was removed to be measured again.
        *[OF_MACHINE[one] for one in ("step_blocks", "blas_rates", "hpl")],
        predictions,
        table_files(MEASURED_TABLES),


rule regressors:
    input:
        *[OF_MACHINE[one] for one in ("kernel_times", "reference_steps")],
        predictions,
        table_files(
            [table for one in OF_REGRESSORS for table in PREDICTION_TABLES[one]]
        ),


rule rounds:
    input:
        "results/rounds.html",


# Rules that measure, compute for long or move data run on nodes. All others run where Snakemake runs; set here for all,
# because rules derived with `use rule` do not inherit `localrule`.
ON_NODES = {
    *["prepare_data", "pack_data", "count_work", "list_layers"],
    # Where none may be measured it writes empty tables, which is no work for a node; targets are not known here.
    *(["fit_kernels"] if OF_MACHINE["kernel_times"] else []),
}
# If another workflow uses this one as a module, only rules from here count.
ON_NODES = {workflow.modifier.modify_rulename(name) for name in ON_NODES}
workflow.localrules(
    *sorted(
        one.name
        for one in workflow.modifier.rules
        if one.name not in ON_NODES and WHOLE_NODES not in one.resources
    )
)
