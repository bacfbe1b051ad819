mod diagnoses;
mod fixture;
mod golden;
mod hostile;
mod incremental;
mod invariants;
mod render;
