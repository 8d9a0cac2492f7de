/* cppcheck.h: macros of libraries, whose headers cppcheck does not read, in words it knows. */
#define json_auto_t json_t
#define json_array_foreach(array, i, value) \
    for (i = 0; i < json_array_size(array) && (value = json_array_get(array, i)) != 0; i++)
#define json_object_foreach(object, key, value) \
    for (key = json_object_iter_key(json_object_iter(object)); key != 0 && (value = json_object_get(object, key)) != 0; \
         key = json_object_iter_key(json_object_iter_next(object, json_object_key_to_iter(key))))
#define json_object_foreach_safe(object, next, key, value) json_object_foreach(object, key, value)
#define TAILQ_HEAD(name, type) struct name { struct type *tqh_first; struct type **tqh_last; }
#define TAILQ_ENTRY(type) struct { struct type *tqe_next; struct type **tqe_prev; }
#define TAILQ_FOREACH(var, head, field) for (var = (head)->tqh_first; var != 0; var = var->field.tqe_next)
#define TAILQ_FIRST(head) ((head)->tqh_first)
#define TAILQ_NEXT(var, field) ((var)->field.tqe_next)
#define TAILQ_EMPTY(head) ((head)->tqh_first == 0)
#define LIST_HEAD(name, type) struct name { struct type *lh_first; }
#define LIST_ENTRY(type) struct { struct type *le_next; struct type **le_prev; }
#define LIST_FOREACH(var, head, field) for (var = (head)->lh_first; var != 0; var = var->field.le_next)
