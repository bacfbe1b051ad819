use portcullis_filter_config::ProtectedIdentities;

use super::Findings;
use crate::types::ProtectedIdentitySettings;

const PATH: &str = "spec.protectedIdentities";
/// The most entries of a list.
const MAX: usize = 256;
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// `None` if no identity is protected.
pub(super) fn check_protected(raw: &ProtectedIdentitySettings, findings: &mut Findings) -> Option<ProtectedIdentities> {
    let drop_groups = match raw.action.as_str() {
        "" | "Refuse" => false,
        "DropGroup" => true,
        _ => {
            findings.problem(format!("{PATH}.action"), "must be Refuse or DropGroup");
            false
        }
    };
    let users = entries("users", &raw.users, findings, |user| {
        (user == "*").then_some("would refuse every user: to close a cluster, use the feature gate DenyAllRequests")
    });
    let groups = entries("groups", &raw.groups, findings, |group| match group {
        AUTHENTICATED => Some("would refuse every authenticated user"),
        UNAUTHENTICATED if drop_groups => {
            Some("cannot be dropped: the servers put requests without a credential into it; use Refuse")
        }
        text if text.ends_with('*') => Some("is not a prefix: groups are named in full"),
        _ => None,
    });
    if drop_groups && groups.is_empty() {
        findings.warning(format!("{PATH}.action"), "has no effect: no groups are named, and users are always refused");
    }
    (!users.is_empty() || !groups.is_empty()).then_some(ProtectedIdentities { users, groups, drop_groups })
}

fn entries(
    field: &str,
    raw: &[String],
    findings: &mut Findings,
    wrong: impl Fn(&str) -> Option<&'static str>,
) -> Vec<String> {
    if raw.len() > MAX {
        findings.problem(format!("{PATH}.{field}"), format!("must be at most {MAX}"));
    }
    for (index, text) in raw.iter().enumerate() {
        let is_name = !text.is_empty() && text.trim() == text && !text.chars().any(char::is_control);
        let problem = if is_name { wrong(text) } else { Some("must be a name without blanks at an end") };
        if let Some(problem) = problem {
            findings.problem(format!("{PATH}.{field}[{index}]"), problem);
        }
    }
    let mut sorted = raw.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn checked(spec: Value) -> Result<Option<ProtectedIdentities>, String> {
        let document = json!({
            "apiVersion": crate::SETTINGS_API_VERSION, "kind": crate::SETTINGS_KIND, "metadata": {"name": "x"},
            "spec": {"protectedIdentities": spec},
        });
        let checked = crate::check_settings(&crate::parse_settings(&document).unwrap());
        checked.outcome.map(|settings| settings.protected).map_err(|problems| problems[0].to_string())
    }

    #[test]
    fn identities_are_protected_only_if_named() {
        assert_eq!(crate::Settings::default().protected, None);
        assert_eq!(checked(json!({})), Ok(None));
        assert_eq!(checked(json!({"action": "DropGroup", "users": [], "groups": []})), Ok(None));
        let masters = |drop_groups| {
            Ok(Some(ProtectedIdentities { users: vec![], groups: vec!["system:masters".into()], drop_groups }))
        };
        assert_eq!(checked(json!({"groups": ["system:masters"]})), masters(false));
        assert_eq!(
            checked(json!({"groups": ["system:masters", "system:masters"], "action": "Refuse"})),
            masters(false)
        );
        assert_eq!(checked(json!({"groups": ["system:masters"], "action": "DropGroup"})), masters(true));
        let users = json!(["system:serviceaccount:kube-system:*", "kubernetes-admin"]);
        let sorted = vec!["kubernetes-admin".to_owned(), "system:serviceaccount:kube-system:*".to_owned()];
        assert_eq!(checked(json!({"users": users})).unwrap().unwrap().users, sorted);
    }

    #[test]
    fn settings_that_would_close_the_gateway_are_refused() {
        for (spec, path) in [
            (json!({"groups": ["x"], "action": "refuse"}), "spec.protectedIdentities.action"),
            (json!({"groups": ["x", ""]}), "spec.protectedIdentities.groups[1]"),
            (json!({"groups": ["x "]}), "spec.protectedIdentities.groups[0]"),
            (json!({"groups": ["system:*"]}), "spec.protectedIdentities.groups[0]"),
            (json!({"groups": ["system:authenticated"]}), "spec.protectedIdentities.groups[0]"),
            (
                json!({"groups": ["system:unauthenticated"], "action": "DropGroup"}),
                "spec.protectedIdentities.groups[0]",
            ),
            (json!({"users": ["*"]}), "spec.protectedIdentities.users[0]"),
            (json!({"users": ["a\tb"]}), "spec.protectedIdentities.users[0]"),
            (json!({"users": vec!["a"; 257]}), "spec.protectedIdentities.users"),
        ] {
            let problem = checked(spec.clone()).unwrap_err();
            assert!(problem.starts_with(&format!("{path}: ")), "{spec}: {problem}");
        }
        assert!(checked(json!({"groups": ["system:unauthenticated"]})).is_ok());
    }
}
