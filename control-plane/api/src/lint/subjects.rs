use super::Told;
use super::part::can_be;
use portcullis_filter_config::{Rule, ServiceAccount};

pub(super) fn lint(rule: &Rule, path: &str, told: &mut Told) {
    for (field, entries) in [("users", &rule.users), ("userGroups", &rule.user_groups)] {
        for (index, entry) in entries.iter().enumerate() {
            if entry.is_empty() || entry == "-" {
                let hint = "remove it; an empty list is everybody";
                told.never(format!("{path}.{field}[{index}]"), "nobody has an empty name", hint);
            }
        }
    }
    for (index, account) in rule.service_accounts.iter().enumerate() {
        service_account(account, format!("{path}.serviceAccounts[{index}]"), told);
    }
}

fn service_account(account: &ServiceAccount, path: String, told: &mut Told) {
    if account.namespace.is_empty() || account.name.is_empty() {
        let hint = "set namespace and name; for all accounts of a namespace, userGroups has \
                    system:serviceaccounts:<namespace>";
        told.never(path, "matches nobody: namespace and name are required", hint);
    } else if account.namespace == "*" || account.name == "*" {
        let hint = "userGroups has system:serviceaccounts:<namespace>, and system:serviceaccounts for all of them";
        told.never(path, "matches nobody: no \"*\" is known here", hint);
    } else if !can_be(account) {
        let hint = "lower-case letters, digits and \"-\"";
        told.never(path, "matches nobody: no service account can be named so", hint);
    }
}
