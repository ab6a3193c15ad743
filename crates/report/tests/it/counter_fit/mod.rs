//! Amounts per call of each kernel kind from samples: simulated, recorded and hostile.

mod hostile;
mod recorded;
mod truth;

use stage2_report::counter_fit::{Edges, Fit, Fitted, Kernel, Kinds, Samples};

fn fit(samples: &Samples, kernels: &[Kernel], edges: Option<Edges>) -> Fitted {
    let mut kinds = Kinds::new();
    kernels.iter().for_each(|kernel| kinds.add(kernel));
    let design = kinds.design(samples);
    let mut fit = Fit::new(samples, &design, edges);
    kernels.iter().for_each(|kernel| fit.kernel(kernel));
    fit.finish()
}
