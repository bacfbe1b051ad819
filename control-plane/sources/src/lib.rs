//! Sources of objects: YAML and JSON files, or a Kubernetes API.
//!
//! A source yields whole sets of objects, newest last, by a tokio watch channel: a slow reader reads the newest set only.

mod directory;
mod documents;
mod events;
mod file_state;
mod files;
mod kubernetes;
mod listing;
mod merge;
mod object_set;
mod once;
mod position;
mod profiles_file;
mod references;
mod spanned_value;
mod spans;

pub use directory::{DirectoryError, Watched, watch};
pub use file_state::MAX_FILE;
pub use kubernetes::{
    Backoff, ConnectError, GatewayApiObjects, KubernetesAccess, KubernetesSets, ObjectKey, SourceHealth, StoredStatus,
    StoredStatuses, WatchOptions, WatchedKind, connect, watch_kubernetes, watch_reason,
};
pub use merge::with_settings;
pub use object_set::{FileDiagnosis, NoticedAt, ObjectSet, Place, SetNumber};
pub use once::{Input, InputError, read_inputs, read_secrets};
pub use position::Position;
pub use profiles_file::{ProfileNames, ProfilesFileError, change_profiles, read_profiles, with_profiles};
pub use references::{Root, read_references};
pub use spans::Spans;
