use portcullis_filter_config::Rule;

/// A list of a rule, under its name.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) name: &'static str,
    pub(super) entries: &'a [String],
    /// Whether a trailing `*` is a prefix.
    pub(super) knows_prefixes: bool,
    /// Whether KubeGateway has the field.
    pub(super) is_ours: bool,
}

/// Every list of texts of a rule.
pub(super) fn fields(rule: &Rule) -> [Field<'_>; 9] {
    [
        plain("verbs", &rule.verbs),
        plain("apiGroups", &rule.api_groups),
        Field { is_ours: true, ..plain("apiVersions", &rule.api_versions) },
        plain("resources", &rule.resources),
        plain("resourceNames", &rule.resource_names),
        Field { is_ours: true, ..plain("namespaces", &rule.namespaces) },
        Field { knows_prefixes: true, ..plain("users", &rule.users) },
        plain("userGroups", &rule.user_groups),
        Field { knows_prefixes: true, ..plain("nonResourceURLs", &rule.non_resource_urls) },
    ]
}

fn plain<'a>(name: &'static str, entries: &'a [String]) -> Field<'a> {
    Field { name, entries, knows_prefixes: false, is_ours: false }
}

impl Field<'_> {
    pub(super) fn path(&self, rule: &str, index: usize) -> String {
        format!("{rule}.{}[{index}]", self.name)
    }

    pub(super) fn has_wildcard(&self) -> bool {
        self.entries.iter().any(|entry| entry == "*")
    }

    /// Whether the exclusions are what counts.
    pub(super) fn only_excludes(&self) -> bool {
        !self.entries.is_empty() && self.entries.iter().all(|entry| entry.starts_with('-'))
    }
}
