use super::Told;
use crate::code::Code;
use crate::types::UpstreamClusterSpec;

pub(super) fn lint(spec: &UpstreamClusterSpec, told: &mut Told) {
    for (index, schema) in spec.flow_control.flow_control_schemas.iter().enumerate() {
        let path = format!("spec.flowControl.flowControlSchemas[{index}]");
        let is_used = spec.dispatch_policies.iter().any(|policy| policy.flow_control_schema_name == schema.name);
        if !is_used {
            let hint = "name it in flowControlSchemaName of a policy, or remove it";
            told.add(
                Code::UnusedSchema,
                format!("{path}.name"),
                "no policy names this schema: it limits nothing",
                hint,
            );
        }
        if schema.max_requests_inflight.as_ref().is_some_and(|limit| limit.max == 0) {
            told.add(
                Code::RefusesEverything,
                format!("{path}.maxRequestsInflight.max"),
                "0 answers every request with 429",
                "nothing to do if this is the switch that closes a policy",
            );
        }
    }
}
