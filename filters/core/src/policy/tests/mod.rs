use super::{Policies, RequestInfo, UserInfo, Walk, config};

mod equals_model;
mod hostile;
mod table;
