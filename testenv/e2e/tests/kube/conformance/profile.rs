//! The whole of the suite's profile.

use std::collections::BTreeSet;

use super::suite::CoveredProfile;
use super::{page, run};

#[test]
fn profile_has_the_outcome_that_is_written() {
    let Some(run) = run("conformance-profile", None) else { return };
    let failed: BTreeSet<&String> = run.passed.iter().filter(|(_, passed)| !**passed).map(|(name, _)| name).collect();
    eprintln!("{} passed, failed: {failed:?}", run.passed.len() - failed.len());
    let profile = CoveredProfile::read();
    page::check(&run, &profile);
    assert_eq!(failed, profile.failing_tests.keys().collect(), "{}", run.log);
}
