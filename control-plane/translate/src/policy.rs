use std::collections::BTreeSet;
use std::time::Duration;

use portcullis_api as api;
use portcullis_api::{AccessLog, Cluster, LogMode, PublicBytes, Settings};
use portcullis_filter_config::{self as config, CONFIG_VERSION, ClusterConfig, Pool, Reviews};

use crate::generation::{Generation, cluster_word, identity, shadow_generation, upstream_identity};
use crate::names::ResourceNames;
use crate::names::{ALL, group_name};

/// The cluster's part of the filter's configuration.
pub(crate) fn cluster_config(cluster: &Cluster, names: &ResourceNames, settings: &Settings) -> ClusterConfig {
    let has_log = settings.access_log != AccessLog::None;
    let is_logged = |policy| has_log && cluster.log_mode.is_logged(policy);
    let mut authorities = vec![cluster.name.clone()];
    for name in cluster.server_names.iter().chain(&cluster.extra_authorities) {
        if !authorities.contains(name) {
            authorities.push(name.clone());
        }
    }
    let config = ClusterConfig {
        version: CONFIG_VERSION,
        name: names.chain().to_owned(),
        identity: identity(cluster, names.chain(), &Generation::of(cluster, settings)),
        object: cluster_word(cluster),
        variant: String::new(),
        listener: String::new(),
        authorities,
        narrower_authorities: Vec::new(),
        client_ca: cluster.client_ca.as_ref().map(text),
        deny_all_requests: cluster.gates.deny_all_requests,
        close_connections: cluster.gates.close_connections,
        rebalance: settings.rebalance.clone(),
        allow_anonymous: cluster.allow_anonymous,
        audit_attribution: cluster.audit_attribution,
        reviews: reviews(cluster, names, settings),
        token_issuers: cluster.tokens.issuers.clone(),
        upstream_identity: upstream_identity(cluster, settings),
        protected: protected(cluster, settings),
        access: settings.access.iter().chain(&cluster.access).cloned().collect(),
        flow_control_schemas: cluster.schemas.clone(),
        fair_queues: cluster.fair_queues.clone(),
        servers: Some(servers(cluster)),
        max_session_duration_seconds: cluster.max_session_duration.map(whole_seconds),
        log_refused: is_logged(LogMode::Unset),
        log_slow_milliseconds: cluster.log_slow.filter(|_| has_log).map(whole_milliseconds),
        log_failed: has_log && cluster.log_failed,
        top_talkers: settings.top_talkers,
        request_info: None,
        policies: cluster.policies.iter().map(|policy| of_policy(policy, names, is_logged(policy.log_mode))).collect(),
        shadow: cluster.shadow.as_ref().map(|shadow| config::Shadow {
            access: settings.access.iter().chain(&shadow.access).cloned().collect(),
            flow_control_schemas: shadow.schemas.clone(),
            policies: shadow.policies.iter().map(|policy| of_policy(policy, names, false)).collect(),
            ..config::Shadow::default()
        }),
    };
    let generation = shadow_generation(&config);
    let shadow = config.shadow.map(|shadow| config::Shadow { generation, ..shadow });
    ClusterConfig { shadow, ..config }
}

fn of_policy(policy: &api::Policy, names: &ResourceNames, is_logged: bool) -> config::Policy {
    config::Policy {
        group: names.word(&group_name(policy)),
        flow_control_schema: policy.schema.clone(),
        log: is_logged,
        deny: policy.deny.clone(),
        rules: policy.rules.clone(),
    }
}

fn servers(cluster: &Cluster) -> config::Servers {
    config::Servers {
        names: cluster.servers.iter().map(|server| server.endpoint.to_string()).collect(),
        drain_seconds: whole_seconds(cluster.drain_period),
    }
}

/// A part of a second counts as one.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}

fn whole_milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The checked form holds PEM that this program wrote, which is ASCII.
pub(crate) fn text(pem: &PublicBytes) -> String {
    String::from_utf8_lossy(pem.as_slice()).into_owned()
}

/// Whether a cluster turns reviews of tokens off and gets them nevertheless: the user of a token must be known where identities
/// are protected, or an access list names users.
pub(crate) fn review_is_forced(cluster: &Cluster, settings: &Settings) -> bool {
    let wishes_none =
        matches!(cluster.upstream_identity, api::UpstreamIdentity::RequestHeader { token_review: false, .. });
    wishes_none && needs_users(cluster, settings)
}

/// Whether the user of each request must be known.
fn needs_users(cluster: &Cluster, settings: &Settings) -> bool {
    let asks_for_users = settings.access.iter().chain(&cluster.access).any(config::AccessLists::depends_on_user);
    settings.protected.is_some() || cluster.protected.is_some() || asks_for_users
}

/// The identities of the settings and those of the cluster; the settings say whether groups are dropped.
fn protected(cluster: &Cluster, settings: &Settings) -> Option<config::ProtectedIdentities> {
    let both = [&settings.protected, &cluster.protected];
    let union = |list: fn(&config::ProtectedIdentities) -> &Vec<String>| {
        let all: BTreeSet<&String> = both.into_iter().flatten().flat_map(list).collect();
        all.into_iter().cloned().collect()
    };
    both.iter().any(|one| one.is_some()).then(|| config::ProtectedIdentities {
        users: union(|one| &one.users),
        groups: union(|one| &one.groups),
        drop_groups: settings.protected.as_ref().is_some_and(|one| one.drop_groups),
    })
}

/// `None` where the servers are not asked.
fn reviews(cluster: &Cluster, names: &ResourceNames, settings: &Settings) -> Option<Reviews> {
    let cache = &cluster.credential_cache;
    let checked = cluster.tokens.check_revocation.filter(|_| !cluster.tokens.issuers.is_empty());
    let user = match &cluster.upstream_identity {
        api::UpstreamIdentity::Impersonate => None,
        api::UpstreamIdentity::RequestHeader { token_review: false, .. } if !needs_users(cluster, settings) => {
            return None;
        }
        api::UpstreamIdentity::RequestHeader { user, .. } => Some(user.clone()),
    };
    Some(Reviews {
        user,
        cluster: names.pool(ALL, Pool::Http2),
        token_ttl_seconds: cache.token_ttl.as_secs(),
        rejected_token_ttl_seconds: cache.rejected_token_ttl.as_secs(),
        authorized_ttl_seconds: cache.authorized_ttl.as_secs(),
        unauthorized_ttl_seconds: cache.unauthorized_ttl.as_secs(),
        constrained_impersonation: cluster.constrained_impersonation,
        token_audiences: cluster.tokens.audiences.clone(),
        revocation_check_seconds: checked.map(whole_seconds),
    })
}
