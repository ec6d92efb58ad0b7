/* A library that is no plugin. */
int foreign(void);
int foreign(void) { return 1; }
