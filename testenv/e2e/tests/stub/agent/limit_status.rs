//! The condition `LimitsShared`, from the reports of three gateways whose limits are divided in a Redis that goes.

use portcullis_harness::redis::Redis;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, wait};
use serde_json::Value;

use super::fixture::SOON;
use super::limit_fleet::{Fleet, GATEWAYS, in_flight};
use crate::fixture::NAME;

/// The status and the message of the condition, as the status page has them.
fn condition(status: &Value) -> Option<(String, String)> {
    let object = status["objects"].as_array()?.iter().find(|one| one["name"] == NAME)?;
    let shared = object["conditions"].as_array()?.iter().find(|one| one["type"] == "LimitsShared")?;
    let text = |field: &str| shared[field].as_str().map(str::to_owned);
    Some((text("status")?, text("message")?))
}

fn wait_for(fleet: &Fleet, status: &str) -> String {
    let is_so = |body: &Value| condition(body).is_some_and(|(found, _)| found == status);
    let found = fleet.planes[0].wait_status(&format!("LimitsShared is {status}"), SOON * 4, is_so).unwrap();
    condition(&found).unwrap().1
}

#[test]
fn status_names_gateways_that_go_by_their_local_limits() {
    let Some(_) = deps::or_skip("limit-status", deps::redis()).unwrap() else { return };
    let run = RunDir::new("limit-status-redis").unwrap();
    let mut redis = Redis::server(run.path(), "redis", Redis::free_address().unwrap(), &[]).unwrap();
    let flags = ["--limits-store".to_owned(), format!("redis://{}", redis.address())];
    let fleet = Fleet::start_at("limit-status", &in_flight("globalAllocate", 24), |site| site.plane_flags(flags));
    let shared = wait_for(&fleet, "True");
    assert!(shared.contains(&format!("{GATEWAYS} gateways")), "{shared}");
    redis.process().kill();
    let are_alone = || (0..GATEWAYS).all(|number| fleet.is_degraded(number) == Some(true)).then_some(());
    wait::until("local limits hold", SOON, are_alone).unwrap();
    let local = wait_for(&fleet, "False");
    assert!(local.contains("local limits hold instead") && local.contains("for shared"), "{local}");
    redis.restart().unwrap();
    fleet.wait_for_parts();
    wait_for(&fleet, "True");
}
