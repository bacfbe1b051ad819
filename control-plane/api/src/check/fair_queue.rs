use std::collections::BTreeSet;
use std::time::Duration;

use portcullis_filter_config::{FairQueueConfig, FlowDistinguisher, FlowWeight};

use super::Findings;
use crate::bounds::MAX_WEIGHTS;
use crate::duration::parse_duration;
use crate::types::{FairQueue, UpstreamClusterSpec};

/// Defaults: those of API Priority and Fairness, and a time that is shorter than a client's patience.
const QUEUES: u32 = 64;
const HAND_SIZE: u32 = 6;
const QUEUE_LENGTH: u32 = 50;
const TIMEOUT: Duration = Duration::from_secs(15);

const PATH: &str = "spec.portcullis.fairQueues";

/// Checks the fair queues, and gives them as the filter reads them.
pub(super) fn check_fair_queues(spec: &UpstreamClusterSpec, findings: &mut Findings) -> Vec<FairQueueConfig> {
    let mut names: BTreeSet<_> = spec.flow_control.flow_control_schemas.iter().map(|schema| &schema.name).collect();
    let mut checked = Vec::new();
    for (index, queue) in spec.portcullis.fair_queues.iter().enumerate() {
        let path = format!("{PATH}[{index}]");
        if queue.name.is_empty() {
            findings.problem(format!("{path}.name"), "is required");
        } else if !names.insert(&queue.name) {
            findings.problem(format!("{path}.name"), "is used by another schema or fair queue");
        }
        checked.push(check_queue(queue, &path, findings));
    }
    checked
}

fn check_queue(raw: &FairQueue, path: &str, findings: &mut Findings) -> FairQueueConfig {
    let queues = raw.queues.unwrap_or(QUEUES);
    let hand_size = raw.hand_size.unwrap_or(HAND_SIZE.min(queues));
    let queue_length = raw.queue_length.unwrap_or(QUEUE_LENGTH);
    let mut refuse = |field: &str, message: String| findings.problem(format!("{path}.{field}"), message);
    if raw.max == 0 {
        refuse("max", "must be at least 1".to_owned());
    }
    if !(1..=FairQueueConfig::MAX_QUEUES).contains(&queues) {
        refuse("queues", format!("must be from 1 to {}", FairQueueConfig::MAX_QUEUES));
    }
    if !(1..=FairQueueConfig::MAX_HAND_SIZE).contains(&hand_size) {
        refuse("handSize", format!("must be from 1 to {}", FairQueueConfig::MAX_HAND_SIZE));
    } else if hand_size > queues {
        refuse("handSize", "must not be more than queues".to_owned());
    }
    let most = FairQueueConfig::MAX_WAITING;
    if queue_length == 0 || queues.checked_mul(queue_length).is_none_or(|waiting| waiting > most) {
        refuse("queueLength", format!("must be at least 1, and at most {most} times all queues"));
    }
    let timeout = match raw.timeout.as_deref().map_or(Ok(TIMEOUT), parse_duration) {
        Ok(timeout) => timeout.as_millis(),
        Err(error) => {
            refuse("timeout", error.to_string());
            TIMEOUT.as_millis()
        }
    };
    let timeout_milliseconds = u64::try_from(timeout).unwrap_or(u64::MAX);
    if !(1..=FairQueueConfig::MAX_TIMEOUT_MILLISECONDS).contains(&timeout_milliseconds) {
        refuse("timeout", "must be from 1ms to 1m".to_owned());
    }
    let by = match raw.by.as_str() {
        "" | "user" => FlowDistinguisher::User,
        "userGroup" => FlowDistinguisher::UserGroup,
        "namespace" => FlowDistinguisher::Namespace,
        "serviceAccount" => FlowDistinguisher::ServiceAccount,
        _ => {
            refuse("by", "must be user, userGroup, namespace or serviceAccount".to_owned());
            FlowDistinguisher::User
        }
    };
    if raw.weights.len() > MAX_WEIGHTS {
        refuse("weights", format!("must not have more than {MAX_WEIGHTS} entries"));
    }
    let mut flows = BTreeSet::new();
    for (index, flow) in raw.weights.iter().enumerate() {
        if !flows.insert(&flow.flow) {
            refuse(&format!("weights[{index}].flow"), "is listed twice".to_owned());
        }
        if !(1..=FairQueueConfig::MAX_WEIGHT).contains(&flow.weight) {
            refuse(&format!("weights[{index}].weight"), format!("must be from 1 to {}", FairQueueConfig::MAX_WEIGHT));
        }
    }
    let weights = raw.weights.iter().map(|flow| FlowWeight { flow: flow.flow.clone(), weight: flow.weight });
    FairQueueConfig {
        name: raw.name.clone(),
        max: raw.max,
        queues,
        hand_size,
        queue_length,
        timeout_milliseconds,
        by,
        weights: weights.collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn checked(queues: &Value) -> Result<Vec<FairQueueConfig>, Vec<String>> {
        let spec = json!({
            "flowControl": {"flowControlSchemas": [{"name": "few", "maxRequestsInflight": {"max": 1}}]},
            "portcullis": {"fairQueues": queues},
        });
        let mut findings = Findings::default();
        let checked = check_fair_queues(&serde_json::from_value(spec).unwrap(), &mut findings);
        let problems: Vec<_> = findings.problems.iter().map(ToString::to_string).collect();
        if problems.is_empty() { Ok(checked) } else { Err(problems) }
    }

    #[test]
    fn fair_queue_is_read_with_its_defaults() {
        let plain = FairQueueConfig {
            name: "fair".into(),
            max: 200,
            queues: 64,
            hand_size: 6,
            queue_length: 50,
            timeout_milliseconds: 15_000,
            by: FlowDistinguisher::User,
            weights: vec![],
        };
        assert_eq!(checked(&json!([{"name": "fair", "max": 200}])), Ok(vec![plain.clone()]));
        assert!(plain.is_within_bounds());
        let all = json!({"name": "all", "max": 2, "queues": 8, "handSize": 2, "queueLength": 7, "timeout": "500ms",
            "by": "namespace", "weights": [{"flow": "kube-system", "weight": 4}]});
        let expected = FairQueueConfig {
            name: "all".into(),
            max: 2,
            queues: 8,
            hand_size: 2,
            queue_length: 7,
            timeout_milliseconds: 500,
            by: FlowDistinguisher::Namespace,
            weights: vec![FlowWeight { flow: "kube-system".into(), weight: 4 }],
        };
        assert_eq!(checked(&json!([all])), Ok(vec![expected]));
        assert_eq!(checked(&json!([{"name": "one", "max": 1, "queues": 1}])).unwrap()[0].hand_size, 1);
    }

    #[test]
    fn fair_queue_out_of_bounds_is_refused() {
        let table = [
            (json!({"name": "", "max": 1}), "name: is required"),
            (json!({"name": "few", "max": 1}), "name: is used by another schema or fair queue"),
            (json!({"name": "a"}), "max: must be at least 1"),
            (json!({"name": "a", "max": 1, "queues": 0}), "queues: must be from 1 to 512"),
            (json!({"name": "a", "max": 1, "queues": 513}), "queues: must be from 1 to 512"),
            (json!({"name": "a", "max": 1, "handSize": 11}), "handSize: must be from 1 to 10"),
            (json!({"name": "a", "max": 1, "queues": 3, "handSize": 4}), "handSize: must not be more than queues"),
            (json!({"name": "a", "max": 1, "queueLength": 0}), "queueLength"),
            (json!({"name": "a", "max": 1, "queueLength": 257}), "queueLength"),
            (json!({"name": "a", "max": 1, "timeout": "61s"}), "timeout: must be from 1ms to 1m"),
            (json!({"name": "a", "max": 1, "timeout": "0"}), "timeout: must be from 1ms to 1m"),
            (json!({"name": "a", "max": 1, "timeout": "soon"}), "timeout: not a duration"),
            (json!({"name": "a", "max": 1, "by": "verb"}), "by: must be user"),
            (json!({"name": "a", "max": 1, "weights": [{"flow": "x", "weight": 0}]}), "weights[0].weight"),
            (
                json!({"name": "a", "max": 1, "weights": [{"flow": "x", "weight": 1}, {"flow": "x", "weight": 2}]}),
                "weights[1].flow: is listed twice",
            ),
        ];
        for (queue, problem) in table {
            let problems = checked(&json!([queue])).unwrap_err();
            assert!(problems.iter().any(|one| one.contains(problem)), "{queue}: {problems:?}");
        }
    }
}
