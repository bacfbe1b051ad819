use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::member::{is_host, is_label};

/// A tenant: the users of a group, and the objects that they may write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Tenant {
    pub(super) name: String,
    pub(super) clusters: Vec<String>,
}

impl FromStr for Tenant {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, clusters) = text.split_once('=').ok_or("it must be NAME=CLUSTER[,CLUSTER]")?;
        let clusters: Vec<String> = clusters.split(',').map(str::to_owned).collect();
        if !is_label(name) || !clusters.iter().all(|cluster| is_host(cluster)) {
            return Err("the name must be of a-z, 0-9 and -, and each cluster a DNS name");
        }
        Ok(Self { name: name.to_owned(), clusters })
    }
}
