//! Counts of the steps whose number the objects bound.

use std::cell::Cell;

/// A step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A comparison of host names, or a look for one above another one.
    Host,
    /// A host name of a route that is listed at a listener.
    Name,
    /// A look at a grant, or for one.
    Grant,
    /// A comparison of a selector with a namespace.
    Selector,
    /// A look at a door with policies, or for one.
    Door,
}

thread_local! {
    static STEPS: Cell<[u64; 5]> = const { Cell::new([0; 5]) };
}

/// Counts a step.
pub(crate) fn count(step: Step) {
    let mut steps = STEPS.get();
    steps[step as usize] += 1;
    STEPS.set(steps);
}

/// The number of such steps that something needs.
pub(crate) fn steps(step: Step, run: impl FnOnce()) -> u64 {
    STEPS.set([0; 5]);
    run();
    STEPS.get()[step as usize]
}
